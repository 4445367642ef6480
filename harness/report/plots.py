"""Which plots a sweep is worth: what is drawn in each, and the sentence below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from harness.analysis.ratios import Point, point
from harness.analysis.results import Estimate, Result
from harness.analysis.state import FORMULA, StateRow
from harness.metrics import METRICS
from harness.report import drawing
from harness.report.drawing import Bars, Panel
from harness.suite.points import GeneratePoint

_MOST_PANELS = 6


@dataclass(frozen=True)
class Plot:
    """A drawing with its title and the sentence below it."""

    title: str
    caption: str
    svg: str


def plots(
    results: Sequence[Result], states: Sequence[StateRow], stacks: Sequence[str], metric: str
) -> list[Plot]:
    """What this sweep has points enough for; `stacks` is the order of the colours.

    `metric` is a time: it is drawn against the prompt's length, throughput against the batch.
    """
    drawn = []
    if METRICS[metric].unit == "ns":
        name = {"tpot": "Time per token", "ttft": "Time to first token"}.get(metric, metric)
        panels = _panels(results, metric, "prompt_tokens", lambda w: f"batch {w.batch}")
        drawn.append(
            _plot(panels, stacks, f"{name} against prompt length", "prompt tokens", "ms", 1e6)
        )
    panels = _panels(results, "throughput", "batch", lambda w: f"prompt {w.prompt_tokens}")
    title = "Throughput against batch"
    drawn += [_plot(panels, stacks, title, "batch", "tokens/s", 1.0), _memory(states, stacks)]
    return [plot for plot in drawn if plot is not None]


def _panels(
    results: Sequence[Result], metric: str, axis: str, name: Callable[[GeneratePoint], str]
) -> list[Panel]:
    """One panel for each set of conditions that has two places or more on the axis."""
    grouped: dict[Point, list[Result]] = {}
    for result in results:
        value = result.value(metric)
        if value is not None and value > 0:
            at = point(result)
            key = replace(at, workload=at.workload.model_copy(update={axis: 1}))
            grouped.setdefault(key, []).append(result)
    extra = _extra(grouped)
    panels = []
    for key, members in grouped.items():
        if len({getattr(r.case.generated, axis) for r in members}) < 2:
            continue
        series: dict[str, list[tuple[float, Estimate]]] = {}
        for result in members:
            place = getattr(result.case.generated, axis)
            series.setdefault(result.case.label, []).append((place, result.metrics[metric]))
        panels.append(Panel(f"{name(members[0].case.generated)}{extra(key)}", series))
    return panels


_NOWHERE = GeneratePoint(batch=1, prompt_tokens=1, new_tokens=1)


def _extra(points: Iterable[Point]) -> Callable[[Point], str]:
    """What a panel's title says besides its place in the grid: nothing where all are alike."""
    if len({replace(at, workload=_NOWHERE) for at in points}) < 2:
        return lambda _: ""
    return lambda at: f", {at.backend} {at.dtype}, {at.threads} thr."


def _plot(
    panels: Sequence[Panel],
    stacks: Sequence[str],
    title: str,
    axis: str,
    unit_name: str,
    unit: float,
) -> Plot | None:
    if not panels:
        return None
    shown = panels[:_MOST_PANELS]
    y_label = f"{title.split(' against')[0].lower()} ({unit_name})"
    if unit_name == "tokens/s":
        y_label = unit_name
    svg = drawing.lines(shown, stacks, axis, y_label, unit, salt=title)
    values = [e for panel in shown for series in panel.series.values() for _, e in series]
    caption = "Geometric means over processes with 95 % t intervals."
    if all(estimate.ci_low is None for estimate in values):
        caption = "One process a case, so no intervals."
    return Plot(title, caption + _left_out(panels), svg)


def _memory(states: Sequence[StateRow], stacks: Sequence[str]) -> Plot | None:
    """State measured, as bars, beside the formula, as dashes."""
    grouped: dict[Point, Bars] = {}
    extra = _extra(point(row.result) for row in states)
    for row in states:
        at = point(row.result)
        w = at.workload
        key = replace(at, workload=w.model_copy(update={"prompt_tokens": 1}))
        title = f"batch {w.batch}, new {w.new_tokens}{extra(at)}"
        values = grouped.setdefault(key, Bars(title, {})).series
        bar = (row.measured_bytes, row.formula_bytes)
        values.setdefault(row.result.case.label, {})[str(w.prompt_tokens)] = bar
    if not any(row.measured_bytes for row in states):
        return None
    panels = list(grouped.values())
    svg = drawing.bars(panels[:_MOST_PANELS], stacks, "state (MB)", 1e6, "memory")
    caption = (
        f"Bars: bytes of the entries held at the end, read off the tensors. Dashes: {FORMULA}."
    )
    return Plot("State held", caption + _left_out(panels), svg)


def _left_out(panels: Sequence[object]) -> str:
    more = len(panels) - _MOST_PANELS
    return f" {more} further sets of conditions are in the table only." if more > 0 else ""
