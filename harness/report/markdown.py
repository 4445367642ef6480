"""A sheet as Markdown: for a pull request, a step summary, a file beside the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.analysis.results import Result
from harness.metrics import METRICS
from harness.report.findings import Grid
from harness.report.predicted import Predicted
from harness.report.sheet import Sheet, sheet
from harness.report.terminal import legend
from harness.store.rows import SweepRow


def markdown(
    sweep: SweepRow,
    results: Sequence[Result],
    baseline: str | None = None,
    metric: str | None = None,
    predicted: Predicted | None = None,
) -> str:
    """One sweep as Markdown. UsageError for an unknown baseline or metric, or without a run."""
    return render(sheet(sweep, results, baseline, metric, predicted))


def render(told: Sheet) -> str:
    """A sheet as Markdown."""
    parts = [f"# {escape(told.title)}"]
    if told.about:
        parts.append(escape(told.about))
    parts.append("\n".join(f"- **{name}**: {escape(value)}" for name, value in told.conditions))
    if told.blocks:
        parts += ["## Results", _blocks(told), escape(legend(told))]
    for title, rows in (("Failed", told.failures), ("Not measured", told.untried)):
        if rows:
            parts += [f"## {title}", table(("case", "status", "reason"), rows, 3)]
    for small in (*told.slopes, *told.details):
        parts += [f"## {escape(small.title)}", grid(small)]
    for title, sentences in (("Findings", told.findings), ("Notes", told.notes)):
        if sentences:
            parts += [f"## {title}", "\n".join(f"- {escape(s)}" for s in sentences)]
    parts.append(_formulas(told))
    return "\n\n".join(parts) + "\n"


def _blocks(told: Sheet) -> str:
    rows: list[tuple[str, ...]] = []
    for block in told.blocks:
        for i, line in enumerate(block.lines):
            cells = line.cells or (f"{line.status}, see below",)
            rows.append(("" if i else block.title, line.stack, *cells))
    return table(("point", "stack", *told.titles), rows, 2)


def grid(small: Grid) -> str:
    """A small table with its note below."""
    drawn = table(small.header, small.rows, 1)
    return f"{drawn}\n\n{escape(small.note)}" if small.note else drawn


def table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    """A table whose first `left` columns are text and whose others are numbers."""
    rule = ["---" if i < left else "---:" for i in range(len(header))]
    lines = [header, rule, *([*row, *[""] * (len(header) - len(row))] for row in rows)]
    return "\n".join("| " + " | ".join(escape(cell) for cell in line) + " |" for line in lines)


def _formulas(told: Sheet) -> str:
    """The definition of every number shown, folded away."""
    lines = [
        f"- **{name}** ({METRICS[name].unit}, better: {METRICS[name].direction}): "
        f"{escape(METRICS[name].formula)}"
        for name in told.defined
    ]
    body = "\n".join(lines)
    return f"<details><summary>Formulas of the metrics</summary>\n\n{body}\n\n</details>"


def escape(text: str) -> str:
    """Text that means itself in Markdown, also inside a table."""
    for character in "\\|*_<>`[]":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
