"""Requests over time, as tables: what users wait for, and what the memory is used for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.ratios import family, ratio
from harness.analysis.results import WITH_NUMBERS, Result
from harness.report import units
from harness.report.findings import Grid
from harness.suite.points import ServePoint

_FIRST = "rate, stack"
# Tables beside the first: title, metrics by the columns' names, note.
_TABLES: tuple[tuple[str, Mapping[str, str], str], ...] = (
    (
        "First token, and time per token after it",
        {
            "ttft": "first",
            "ttft_p90": "p90",
            "ttft_p99": "p99",
            "tpot": "token",
            "tpot_p90": "p90",
            "tpot_p99": "p99",
        },
        "medians, 90th and 99th percentiles over requests, from when each was due; they need 10 "
        "and 100 of them",
    ),
    (
        "Gap between tokens, and whole answer",
        {
            "itl_p50": "gap",
            "itl_p90": "p90",
            "itl_p99": "p99",
            "e2e": "answer",
            "e2e_p90": "p90",
            "e2e_p99": "p99",
        },
        "medians, 90th and 99th percentiles, of gaps over all tokens, of answers over requests "
        "from when each was due; they need 10 and 100 of them",
    ),
    (
        "Queue and room",
        {
            "queue_time_p90": "queue",
            "batch_occupancy": "batch",
            "peak_sequences": "peak",
            "cache_utilisation": "held",
            "cache_waste": "waste",
            "preemptions": "preempted",
            "prefix_hit_rate": "hits",
            "swaps_out": "swapped",
            "refused": "refused",
        },
        "queue: until a request is first fed, 90th percentile; batch: sequences in a step / slots; "
        "peak: most sequences at once; held: places for tokens that sequences hold / all; waste: "
        "held places without an entry; hits: prompt tokens found in the cache",
    ),
)
_SHARES = ("batch_occupancy", "cache_utilisation", "cache_waste", "prefix_hit_rate")
_COUNTS = ("peak_sequences", "preemptions", "swaps_out", "refused", "goodput", "request_rate")
# Columns that are left out where there is nothing of the kind.
_RARE = ("prefix_hit_rate", "swaps_out", "refused")


def serving_grids(results: Sequence[Result], baseline: str, stacks: Sequence[str]) -> list[Grid]:
    """Tables for each stream of requests under equal conditions: rates, times, and room.

    A stack at a rate is a row, slower rates first; of each the baseline, then the others in the
    order of `stacks`.
    """
    grids = []
    for title, members in _grouped(results, baseline, stacks).items():
        rows = [r for r in members if r.status in WITH_NUMBERS]
        if not rows:
            continue
        bases = {_place(r): r for r in rows if r.case.label == baseline}
        header = (_FIRST, "tok/s", f"/ {baseline}'s", "requests/s", "good/s")
        lines = tuple(_rates(r, bases.get(_place(r)), baseline) for r in rows)
        note = "good/s: requests a second that met the suite's slo"
        grids.append(Grid(f"Serving {title}", header, lines, note))
        for what, named, note in _TABLES:
            names = [n for n in named if n not in _RARE or any(r.value(n) for r in rows)]
            grids.append(
                Grid(
                    title=f"{what}, {title}",
                    header=(_FIRST, *(named[name] for name in names)),
                    rows=tuple((_named(r), *(_cell(r, name) for name in names)) for r in rows),
                    note=note,
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


def _grouped(
    results: Sequence[Result], baseline: str, stacks: Sequence[str]
) -> dict[str, list[Result]]:
    grouped: dict[str, list[Result]] = {}
    for result, point in sorted(served(results), key=lambda pair: _room(pair[1])):
        case = result.case
        threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
        where = (family(case), case.backend, case.dtype, threads)
        source = () if result.source == "measured" else (result.source,)
        grouped.setdefault(", ".join([stream(point), *where, *source]), []).append(result)
    for members in grouped.values():
        members.sort(key=lambda r: (*_place(r), *rank(r.case.label, baseline, stacks)))
    return grouped


def _room(point: ServePoint) -> tuple[float, ...]:
    """In which order streams are told: those with less in common and less room first."""
    return (point.prefix_tokens, point.samples, point.slots, point.state_bytes or 0)


def rank(label: str, baseline: str, stacks: Sequence[str]) -> tuple[bool, int, str]:
    """Where a stack stands among others: the baseline first, then in the suite's order."""
    place = stacks.index(label) if label in stacks else len(stacks)
    return label != baseline, place, label


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


def _rates(result: Result, base: Result | None, baseline: str) -> tuple[str, ...]:
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
    return (_named(result), head, times, _cell(result, "request_rate"), _cell(result, "goodput"))


def _cell(result: Result, name: str) -> str:
    number = result.value(name)
    if number is None:
        return units.NOTHING
    if name in _SHARES:
        return f"{100 * number:.1f}%"
    if name in _COUNTS:
        return units.digits(number)
    return units.value(name, number)
