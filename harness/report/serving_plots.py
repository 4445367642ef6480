"""Plots of serving: latency and throughput against load, and the course of runs over time."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.ratios import family
from harness.analysis.results import Estimate, Result
from harness.report import drawing
from harness.report.drawing import Course, Panel
from harness.report.plots import Plot
from harness.report.serving import served, stream

_MOST_PANELS = 6
_MOST_COURSES = 8
# (metric, title, axis, stored units in one of the axis)
_AGAINST = (
    ("ttft_p90", "Time to first token, 90th percentile, against load", "ms", 1e6),
    ("throughput", "Throughput against load", "tokens/s", 1.0),
)
# What is drawn over time, by the panel it is drawn in.
_COURSES = (
    ("sequences", {"running": "running", "waiting": "waiting"}),
    ("places for tokens", {"places_held": "held", "places_used": "with an entry"}),
)


def serving_plots(results: Sequence[Result], stacks: Sequence[str]) -> list[Plot]:
    """What served results are worth; `stacks` is the order of the colours."""
    ordered = sorted(results, key=lambda result: stacks.index(result.case.label))
    drawn = [_against(ordered, stacks, *each) for each in _AGAINST]
    return [plot for plot in (*drawn, _course(ordered, stacks)) if plot is not None]


def _against(
    results: Sequence[Result],
    stacks: Sequence[str],
    metric: str,
    title: str,
    name: str,
    unit: float,
) -> Plot | None:
    """A metric against the rate, one panel a stream of requests with two rates or more."""
    grouped: dict[str, dict[str, list[tuple[float, Estimate]]]] = {}
    for result, point in served(results):
        if point.rate is not None and (result.value(metric) or 0.0) > 0:
            series = grouped.setdefault(f"{stream(point)}, {family(result.case)}", {})
            series.setdefault(result.case.label, []).append((point.rate, result.metrics[metric]))
    panels = [
        Panel(title, series)
        for title, series in grouped.items()
        if len({rate for values in series.values() for rate, _ in values}) > 1
    ][:_MOST_PANELS]
    if not panels:
        return None
    svg = drawing.lines(panels, stacks, "requests a second", name, unit, salt=title)
    every = [e for panel in panels for values in panel.series.values() for _, e in values]
    told = "Geometric means over processes with 95 % t intervals."
    if all(estimate.ci_low is None for estimate in every):
        told = "One process a case, so no intervals."
    return Plot(title, f"{told} Times count from when a request was due.", svg)


def _course(results: Sequence[Result], stacks: Sequence[str]) -> Plot | None:
    """What ran, waited and was held over time: stacks at the last stream's highest load."""
    highest: dict[str, dict[str, tuple[float, Result]]] = {}
    for result, point in served(results):
        if result.timeline is not None:
            of_stream = highest.setdefault(stream(point), {})
            rate, label = point.rate or 0.0, result.case.label
            if label not in of_stream or of_stream[label][0] < rate:
                of_stream[label] = (rate, result)
    if not highest:
        return None
    name, by_stack = max(highest.items())
    chosen = [by_stack[label][1] for label in stacks if label in by_stack][:_MOST_COURSES]
    panels = []
    for result in chosen:
        course = result.timeline
        assert course is not None
        for what, names in _COURSES:
            found = {label: course.series[n] for n, label in names.items() if n in course.series}
            if found:
                panels.append(Course(f"{result.case.label}: {what}", course.seconds, found))
    if not panels:
        return None
    svg = drawing.courses(panels, "seconds", salt="course")
    return Plot(
        "The course of a run, at the highest load",
        f"{name}, the first process of each case. Means over equal stretches of time; a waiting "
        "request is one that is due and not in the batch.",
        svg,
    )
