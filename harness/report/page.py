"""A sheet as one HTML file that needs nothing else: no script, no font, no request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from harness.analysis.results import Result
from harness.analysis.state import states
from harness.metrics import METRICS
from harness.report.conditions import outline
from harness.report.findings import Grid
from harness.report.page_style import STYLE
from harness.report.plots import Plot, plots
from harness.report.predicted import Predicted
from harness.report.serving import rank
from harness.report.serving_plots import serving_plots
from harness.report.sheet import Line, Sheet, order, sheet
from harness.report.terminal import legend
from harness.store.rows import SweepRow

# Nothing may be loaded from anywhere, whatever a suite's text tries to smuggle in.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def html(
    sweep: SweepRow,
    results: Sequence[Result],
    baseline: str | None = None,
    metric: str | None = None,
    predicted: Predicted | None = None,
) -> str:
    """One sweep as a page. UsageError for an unknown baseline or metric, or without a run."""
    told = sheet(sweep, results, baseline, metric, predicted)
    generated = [result for result in results if result.generates]
    ordered = order(generated, told.baseline, outline(sweep).stacks)
    stacks = list(dict.fromkeys(r.case.label for r in ordered))
    drawn = plots(ordered, states(ordered, told.baseline), stacks, told.metric)
    labels = {r.case.label for r in results}
    suite = outline(sweep).stacks
    drawn += serving_plots(results, sorted(labels, key=lambda s: rank(s, told.baseline, suite)))
    return render(told, drawn, sweep.suite_text)


def render(told: Sheet, drawn: Sequence[Plot], suite_text: str) -> str:
    """A sheet and its plots as a page."""
    body = [
        f"<h1>{escape(told.title)}</h1>",
        f'<p class="about">{escape(told.about)}</p>' if told.about else "",
        _definitions(told.conditions),
        *(_figure(plot, told) for plot in drawn),
        _results(told) if told.blocks else "",
        _listed("Failed", told.failures),
        _listed("Not measured", told.untried),
        *(_section(grid.title, _grid(grid)) for grid in (*told.slopes, *told.details)),
        _sentences("Findings", told.findings),
        _sentences("Notes", told.notes),
        _folded("Formulas of the metrics", _definitions(_formulas(told))),
        _folded("The suite", f"<pre>{escape(suite_text)}</pre>"),
    ]
    content = "\n".join(part for part in body if part)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(told.title)}</title>
<style>{STYLE}</style>
</head>
<body>
{content}
</body>
</html>
"""


def _results(told: Sheet) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in told.titles)
    rows = []
    for block in told.blocks:
        span = len(told.titles) + 1
        rows.append(f'<tr class="point"><td colspan="{span}">{escape(block.title)}</td></tr>')
        rows += [_line(line, len(told.titles)) for line in block.lines]
    table = (
        f'<div class="scroll"><table class="results"><thead><tr><th class="text">stack</th>{head}'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    return _section("Results", f'{table}<p class="note">{_told(legend(told))}</p>')


def _line(line: Line, columns: int) -> str:
    stack = f'<td class="text">{escape(line.stack)}</td>'
    if not line.cells:
        status = f'<td class="status text" colspan="{columns}">{line.status}, see below</td>'
        return f"<tr>{stack}{status}</tr>"
    # The second cell is the ratio: its colour is its verdict.
    cells = [
        f'<td class="{line.verdict}">{_told(cell)}</td>'
        if i == 1 and line.verdict
        else f"<td>{_told(cell)}</td>"
        for i, cell in enumerate(line.cells)
    ]
    return f"<tr>{stack}{''.join(cells)}</tr>"


def _told(text: str) -> str:
    """Text of a sheet, which is ASCII, as a page writes it."""
    return escape(text).replace("+-", "&plusmn;")


def _grid(grid: Grid) -> str:
    head = _cells(grid.header, "th", 1)
    rows = "".join(f"<tr>{_cells(row, 'td', 1)}</tr>" for row in grid.rows)
    table = (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    return f'{table}<p class="note">{_told(grid.note)}</p>' if grid.note else table


def _cells(cells: Iterable[str], tag: str, left: int) -> str:
    text = ' class="text"'
    return "".join(
        f"<{tag}{text if i < left else ''}>{_told(cell)}</{tag}>" for i, cell in enumerate(cells)
    )


def _listed(title: str, rows: Sequence[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr><td class="text">{escape(case)}</td><td class="text status">{escape(status)}</td>'
        f'<td class="text wrap">{escape(reason)}</td></tr>'
        for case, status, reason in rows
    )
    head = "".join(f'<th class="text">{name}</th>' for name in ("case", "status", "reason"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return _section(title, f'<div class="scroll">{table}</div>')


def _figure(plot: Plot, told: Sheet) -> str:
    """A plot with the conditions its numbers hold under."""
    known = dict(told.conditions)
    under = "; ".join(known[name] for name in ("cases", "hardware", "code") if name in known)
    caption = f"{escape(plot.caption)}<br>{escape(under)}"
    named = f'<svg role="img" aria-label="{escape(plot.title)}" '
    svg = plot.svg.replace("<svg ", named, 1)
    return _section(plot.title, f"<figure>{svg}<figcaption>{caption}</figcaption></figure>")


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>\n{content}</section>"


def _sentences(title: str, sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{_told(sentence)}</li>" for sentence in sentences)
    return _section(title, f"<ul>{items}</ul>")


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n{content}</details>"


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{items}</dl>"


def _formulas(told: Sheet) -> list[tuple[str, str]]:
    """Name and definition of every metric shown."""
    return [
        (name, f"{METRICS[name].formula} [{METRICS[name].unit}; better: {METRICS[name].direction}]")
        for name in told.defined
    ]
