"""A stored result as asv sees one: smaller is better, and statistics over processes.

Metrics that are better high become their reciprocal, and an undefined number is left out: asv
itself writes a bare Infinity there, which is no JSON.
"""

from __future__ import annotations

from datetime import datetime
from statistics import quantiles
from typing import Any

from harness.analysis.intervals import geometric_mean
from harness.analysis.results import Result
from harness.metrics import METRICS, Metric
from harness.suite.case import Case


def name(metric: Metric) -> str:
    """What asv calls a metric; one that is better high is exported upside down."""
    return f"{metric.name}_reciprocal" if metric.direction == "higher" else metric.name


def unit(metric: Metric) -> str:
    """The unit of the exported values; asv scales seconds and bytes for people."""
    if metric.direction == "higher":
        if metric.unit.endswith("/s"):
            return f"seconds/{metric.unit.removesuffix('/s').removesuffix('s')}"
        return f"1/{metric.unit}"
    return "seconds" if metric.unit == "ns" else metric.unit


def value(metric: Metric, number: float) -> float | None:
    """A stored number as asv shall see it: smaller is better. None where that is undefined."""
    if metric.direction == "higher":
        return 1 / number if number > 0 else None
    return number / 1e9 if metric.unit == "ns" else number


def label(case: Case) -> str:
    """A case for people, in one line."""
    words = [case.model, case.backend, case.dtype]
    words.append(f"{case.threads} thread{'s' if case.threads > 1 else ''}")
    words += ["CUDA graph"] if case.cuda_graph else []
    return f"{case.title}, {', '.join(word for word in words if word)}"


def cells(result: Result, started_at: datetime) -> dict[tuple[str, str], dict[str, Any]]:
    """asv's columns of each metric of a good result, by (metric, case)."""
    if result.status != "ok" or result.source == "predicted":
        return {}
    found = {}
    for metric_name, estimate in result.metrics.items():
        metric = METRICS.get(metric_name)
        if metric is None or metric.direction == "neither" or estimate.value is None:
            continue
        centre = value(metric, estimate.value)
        samples = [value(metric, number) for _, number in estimate.by_round]
        if centre is not None:
            found[metric_name, result.case.hash] = {
                "started_at": milliseconds(started_at),
                "result": centre,
                **_stats([v for v in samples if v is not None]),
            }
    return found


def _stats(samples: list[float]) -> dict[str, Any]:
    """asv's statistics over processes; what is undefined is left out, for Infinity is no JSON."""
    if len(samples) < 2:
        return {"stats_number": 1, "stats_repeat": len(samples), "samples": samples}
    low, _, high = quantiles(samples, n=4, method="inclusive")
    stats = {"stats_q_25": low, "stats_q_75": high, "stats_number": 1}
    if min(samples) > 0:
        interval = geometric_mean(samples, 0.99)
        stats |= {"stats_ci_99_a": interval.low, "stats_ci_99_b": interval.high}
    return {**stats, "stats_repeat": len(samples), "samples": samples}


def milliseconds(at: datetime) -> int:
    """A time as asv stores it."""
    return round(at.timestamp() * 1000)
