"""Requests over time, as tables: what users wait for, and what the memory is used for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.ratios import family, ratio
from harness.analysis.results import WITH_NUMBERS, Result
from harness.report import units
from harness.report.findings import Grid
from harness.suite.points import ServePoint

_TIMES = ("goodput", "ttft", "ttft_p90", "ttft_p99", "tpot_p90", "itl_p99", "e2e_p90")
_ROOM = (
    "queue_time_p90", "batch_occupancy", "peak_sequences", "cache_utilisation", "cache_waste",
    "prefix_hit_rate", "preemptions", "refused",
)  # fmt: skip
_TITLES = {
    "goodput": "good/s",
    "ttft": "ttft p50",
    "ttft_p90": "p90",
    "ttft_p99": "p99",
    "tpot_p90": "tpot p90",
    "itl_p99": "itl p99",
    "e2e_p90": "e2e p90",
    "queue_time_p90": "queue p90",
    "batch_occupancy": "batch",
    "peak_sequences": "peak",
    "cache_utilisation": "held",
    "cache_waste": "waste",
    "prefix_hit_rate": "hits",
    "preemptions": "preempted",
    "refused": "refused",
}
_SHARES = ("batch_occupancy", "cache_utilisation", "cache_waste", "prefix_hit_rate")


def serving_grids(results: Sequence[Result], baseline: str) -> list[Grid]:
    """Two tables for each stream of requests under equal conditions: times, and room.

    A stack at a rate is a row, slower rates first and the baseline first of each.
    """
    grids = []
    for title, members in _grouped(results, baseline).items():
        rows = [r for r in members if r.status in WITH_NUMBERS]
        if not rows:
            continue
        bases = {_place(r): r for r in rows if r.case.label == baseline}
        grids.append(
            Grid(
                title=f"Serving {title}",
                header=(
                    "requests a second, stack",
                    "tok/s",
                    f"/ {baseline}'s",
                    *(_TITLES[name] for name in _TIMES),
                ),
                rows=tuple(_times(r, bases.get(_place(r)), baseline) for r in rows),
                note="times count from when a request was due; ttft first token, tpot time per "
                "token after it, itl gap between tokens, e2e whole answer",
            )
        )
        grids.append(
            Grid(
                title=f"Room and queue, {title}",
                header=("requests a second, stack", *(_TITLES[name] for name in _ROOM)),
                rows=tuple((_named(r), *(_cell(r, name) for name in _ROOM)) for r in rows),
                note="batch: sequences in a step / slots; peak: most sequences at once; held: "
                "places for tokens that sequences hold / all; waste: held places without an entry",
            )
        )
    return grids


def stream(point: ServePoint) -> str:
    """What comes, apart from how fast and how bursty: "azure-2023-code x0.125, slots 64"."""
    bare = point.model_copy(update={"rate": None, "arrivals": "poisson", "burstiness": 1.0})
    return bare.title


def served(results: Sequence[Result]) -> Iterator[tuple[Result, ServePoint]]:
    """Those that served requests, with their points."""
    for result in results:
        if isinstance(result.case.workload, ServePoint):
            yield result, result.case.workload


def _grouped(results: Sequence[Result], baseline: str) -> dict[str, list[Result]]:
    grouped: dict[str, list[Result]] = {}
    for result, point in served(results):
        case = result.case
        threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
        where = (family(case), case.backend, case.dtype, threads)
        source = () if result.source == "measured" else (result.source,)
        grouped.setdefault(", ".join([stream(point), *where, *source]), []).append(result)
    for members in grouped.values():
        members.sort(key=lambda r: (*_place(r), r.case.label != baseline))
    return grouped


def _place(result: Result) -> tuple[str, float, float]:
    """How requests come: the kind, the rate, the burstiness."""
    point = result.case.workload
    assert isinstance(point, ServePoint)
    return point.arrivals, point.rate or 0.0, point.burstiness


def _named(result: Result) -> str:
    arrivals, rate, burstiness = _place(result)
    how = f"{rate:g}" if rate else "at once" if arrivals == "at_once" else "as it was"
    spread = f" cv {burstiness:g}" if arrivals == "gamma" else ""
    return f"{how}{spread}  {result.case.label}"


def _times(result: Result, base: Result | None, baseline: str) -> tuple[str, ...]:
    estimate = result.metrics.get("throughput")
    head = units.NOTHING
    if estimate is not None and estimate.value is not None:
        head = f"{units.digits(estimate.value)} {units.spread(estimate)}".rstrip()
    if result.case.label == baseline:
        times = "baseline"
    elif base is None:
        times = "no baseline"
    else:
        times = units.times(ratio(result, base, "throughput"))
    return (_named(result), head, times, *(_cell(result, name) for name in _TIMES))


def _cell(result: Result, name: str) -> str:
    number = result.value(name)
    if number is None:
        return units.NOTHING
    if name in _SHARES:
        return f"{100 * number:.1f}%"
    if name in ("peak_sequences", "preemptions", "refused", "goodput"):
        return units.digits(number)
    return units.value(name, number)
