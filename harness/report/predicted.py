"""Predicted beside measured: the same cases on devices that are not at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.analysis.results import Result
from harness.report import units
from harness.report.findings import Grid

Predicted = Mapping[str, Sequence[Result]]  # by the device's name


def predicted_grid(results: Sequence[Result], predicted: Predicted, metric: str) -> Grid | None:
    """A row a case: measured here, then predicted for each device; None where none is."""
    columns = {
        name: {result.case.hash: result for result in found} for name, found in predicted.items()
    }
    rows = []
    for result in results:
        cells = [_cell(found.get(result.case.hash), metric) for found in columns.values()]
        if any(cell != units.NOTHING for cell in cells):
            rows.append((result.case.title, _cell(result, metric), *cells))
    if not rows:
        return None
    return Grid(
        title=f"Predicted beside measured: {metric.replace('_', ' ')}",
        header=("case", "measured here", *columns),
        rows=tuple(rows),
        note="what the cost model says each device would take; [ ]: bounds of 95 %",
    )


def _cell(result: Result | None, metric: str) -> str:
    if result is None:
        return units.NOTHING
    estimate = result.metrics.get(metric)
    if estimate is None or estimate.value is None:
        return units.NOTHING if result.status in ("ok", "predicted") else result.status
    text = units.value(metric, estimate.value)
    if result.source != "predicted" or estimate.ci_low is None or estimate.ci_high is None:
        return text
    low, high = (units.value(metric, bound) for bound in (estimate.ci_low, estimate.ci_high))
    return f"{text} [{low}, {high}]"
