"""The style of an HTML report: one column, light and dark, printable. Inlined into every page."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --soft: #5b6470; --line: #dfe3e8; --band: #f4f6f8;
  --good: #18794e; --bad: #c0262d;
  --series-1: #2563c9; --series-2: #c2570c; --series-3: #1a7f4b;
  --series-4: #8445b8; --series-5: #c62f4b; --series-6: #0f7f8c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171c; --ink: #e4e8ee; --soft: #9aa5b3; --line: #323943; --band: #1c2128;
    --good: #4fc38a; --bad: #ff7b84;
    --series-1: #6ea0ff; --series-2: #f2994a; --series-3: #4fc38a;
    --series-4: #c08cf0; --series-5: #ff7b8e; --series-6: #4cc4d1;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 66rem;
  background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.6rem; margin: 0; line-height: 1.25; }
h2 { font-size: 1.1rem; margin: 2.4rem 0 .6rem; }
.about { color: var(--soft); margin: .3rem 0 1.2rem; }
dl {
  display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: 0;
  padding: .9rem 1.1rem; background: var(--band); border-radius: 6px; font-size: .9rem;
}
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .65rem; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--line); }
th.text, td.text { text-align: left; }
td.wrap { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; }
tbody tr:hover td { background: var(--band); }
tr.point td {
  text-align: left; font-weight: 600; padding-top: .8rem; border-bottom: 1px solid var(--line);
}
tr.point:hover td { background: none; }
.results td:first-child { padding-left: 1.4rem; }
.results tr.point td:first-child { padding-left: .8rem; }
.improved { color: var(--good); }
.regressed, .status { color: var(--bad); }
.same, .unknown, .note { color: var(--soft); }
.note { font-size: .85rem; margin: .5rem 0 0; }
figure { margin: 0; }
figure svg { width: 100%; height: auto; display: block; }
figure svg text { font-family: inherit; }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .3rem; }
details { margin-top: 2.4rem; }
summary { cursor: pointer; font-weight: 600; font-size: 1.1rem; }
details dl { margin-top: .8rem; }
pre {
  background: var(--band); padding: .9rem 1.1rem; border-radius: 6px; overflow-x: auto;
  font: .85rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace;
}
ul { padding-left: 1.2rem; margin: .4rem 0; }
@media print { body { max-width: none; padding: 0; } details:not([open]) { display: none; } }
"""
