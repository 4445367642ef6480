"""From what a serve run left behind to the metrics of `harness.metrics`, by the formulas there.

Pure functions on stamps and counters. Times count from when a request was due. What is undefined is
None with a reason; a percentile exists where at least one value is expected beyond it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.measure.interval import percentile
from harness.measure.serve import Answered, Served, ServeStep
from harness.run import MetricValue, SampleSet
from harness.suite.slo import Slo

# (name's ending, share, values it needs)
PERCENTILES = (("", 0.5, 1), ("_p90", 0.9, 10), ("_p99", 0.99, 100))
# Counters whose course over the steps is stored beside a run, and drawn.
TIMELINE = ("running", "waiting", "batch", "fed", "places_held", "places_used", "preemptions")


@dataclass(frozen=True)
class Times:
    """One request's times in ns, all from when it was due."""

    ttft: int
    ttft_submitted: int  # from when it was handed in
    queue: int  # until the step that first fed it
    e2e: int
    tokens: int  # of all answers
    tpot: float | None  # the worst answer's; None where no answer has a second emission


def times(served: Served) -> list[Times]:
    """Times of every request that was answered, in order of arrival."""
    found = []
    for due, submitted in zip(served.due, served.submitted_ns, strict=True):
        request = due.request
        if request.id in served.refused:
            continue
        answers = [served.by_answer[request.id, sample] for sample in range(request.samples)]
        first = min(answer[0].stamp_ns for answer in answers)
        found.append(
            Times(
                ttft=first - due.at_ns,
                ttft_submitted=first - submitted,
                queue=served.entered_ns[request.id] - due.at_ns,
                e2e=max(answer[-1].stamp_ns for answer in answers) - due.at_ns,
                tokens=sum(len(a.token_ids) for answer in answers for a in answer),
                tpot=max(filter(None, map(_tpot, answers)), default=None),
            )
        )
    return found


def _tpot(answer: Sequence[Answered]) -> float | None:
    later = sum(len(a.token_ids) for a in answer[1:])
    return (answer[-1].stamp_ns - answer[0].stamp_ns) / later if later else None


def metrics(served: Served, slots: int, slo: Slo | None, lookahead: int) -> list[MetricValue]:
    """Every metric that times and counters of one run give."""
    found = times(served)
    if not found:
        reason = f"all {len(served.due)} requests were refused"
        return [MetricValue(name="refused", value=len(served.refused), n=len(served.due)),
                MetricValue(name="throughput", value=None, null_reason=reason)]  # fmt: skip
    held_back = _held_back(served, lookahead)
    tpots = [t.tpot for t in found if t.tpot is not None]
    no_tpot = held_back or "every answer's first emission is also its last"
    seconds = served.duration_ns / 1e9
    tokens = sum(step.tokens for step in served.steps)
    return [
        *_percentiles("ttft", [t.ttft for t in found]),
        *_percentiles("tpot", [] if held_back else tpots, no_tpot),
        *_inter_token(served, held_back),
        *_percentiles("e2e", [t.e2e for t in found]),
        *_percentiles("queue_time", [t.queue for t in found]),
        *_percentiles("normalized_latency", [t.e2e / t.tokens for t in found]),
        _value("ttft_submitted", percentile([(t.ttft_submitted, 1) for t in found], 0.5),
               len(found)),
        _value("throughput", tokens / seconds, tokens),
        _value("request_rate", len(found) / seconds, len(found)),
        _goodput(found, slo, seconds, held_back),
        _value("refused", len(served.refused), len(served.due)),
        _value("generator_lateness", max(served.late_ns), len(served.late_ns)),
        *_of_steps(served.steps, slots),
        *_of_sums(served.steps[-1].counters),
    ]  # fmt: skip


def samples(served: Served) -> list[SampleSet]:
    """Raw times of every request, and the course of the run: a number a step and counter."""
    found, steps = times(served), served.steps
    by_request = {
        "ttft": [t.ttft for t in found],
        "e2e": [t.e2e for t in found],
        "queue_time": [t.queue for t in found],
    }
    sets = [SampleSet(metric=n, unit="ns", values=v) for n, v in by_request.items() if v]
    # Times as differences: they compress to a third of what stamps take.
    ends = [b - a for a, b in pairwise([0, *(step.end_ns for step in steps)])]
    sets.append(SampleSet(metric="timeline_step", unit="ns", values=ends))
    for name in TIMELINE:
        if name in steps[-1].counters:
            values = [step.counters[name] for step in steps]
            sets.append(SampleSet(metric=f"timeline_{name}", unit="", values=values))
    return sets


def _percentiles(name: str, values: Sequence[float], none: str = "") -> Iterator[MetricValue]:
    for ending, share, needed in PERCENTILES:
        if len(values) >= needed:
            value = percentile([(each, 1) for each in values], share)
            yield _value(name + ending, value, len(values))
        else:
            reason = f"needs {needed} requests, has {len(values)}" if values else none
            yield _undefined(name + ending, reason)


def _inter_token(served: Served, held_back: str | None) -> Iterator[MetricValue]:
    """Percentiles of gap / tokens, weighted by tokens; answers that share both stamps are one."""
    weights: Counter[tuple[int, int, int]] = Counter()
    for answer in served.by_answer.values():
        for before, after in pairwise(answer):
            count = len(after.token_ids)
            weights[before.stamp_ns, after.stamp_ns, count] += count
    values = [((b - a) / tokens, float(w)) for (a, b, tokens), w in weights.items()]
    gaps = len({key[:2] for key in weights})
    for ending, (_, share, needed) in zip(("_p50", "_p90", "_p99"), PERCENTILES, strict=True):
        if held_back is None and gaps >= needed:
            yield _value(f"itl{ending}", percentile(values, share), gaps)
        else:
            few = f"needs {needed} gaps, has {gaps}"
            yield _undefined(f"itl{ending}", held_back or few)


def _held_back(served: Served, lookahead: int) -> str | None:
    """Why times between emissions are not times between tokens; None where they are."""
    most = max(len(answered.token_ids) for answered in served.answers)
    if most <= 1 + lookahead:
        return None
    return (
        f"an emission carries {most} tokens and a step settles at most {1 + lookahead}: tokens "
        "were held back, so times between emissions are not those of tokens"
    )


def _goodput(
    found: Sequence[Times], slo: Slo | None, seconds: float, held_back: str | None
) -> MetricValue:
    if slo is None:
        return _undefined("goodput", "the suite names no slo")
    met = sum(_meets(each, slo, held_back is None) for each in found)
    return _value("goodput", met / seconds, len(found))


def _meets(each: Times, slo: Slo, tpot_known: bool) -> bool:
    """Whether one request meets every bound; an undefined time meets none."""
    bounds = ((each.ttft, slo.ttft_ms), (each.tpot if tpot_known else None, slo.tpot_ms))
    return all(
        limit_ms is None or (time_ns is not None and time_ns <= limit_ms * 1e6)
        for time_ns, limit_ms in bounds
    )


def _of_steps(steps: Sequence[ServeStep], slots: int) -> Iterator[MetricValue]:
    """Means over the steps' own time: a long step counts for as long as it takes."""
    fed = [step for step in steps if step.counters["batch"]]
    n = len(fed)
    yield _value("batch_occupancy", _mean(fed, "batch") / slots, n)
    yield _value("peak_sequences", max(step.counters["running"] for step in steps), n)
    names = ("cache_utilisation", "cache_waste", "peak_places")
    if "places" not in steps[-1].counters:
        for name in names:
            yield _undefined(name, "the cache holds nothing between steps")
        return
    held, used = _mean(fed, "places_held"), _mean(fed, "places_used")
    yield _value(names[0], held / steps[-1].counters["places"], n)
    yield _value(names[1], 1 - used / held, n) if held else _undefined(names[1], "nothing was held")
    yield _value(names[2], max(step.counters["places_held"] for step in steps), n)


def _mean(steps: Sequence[ServeStep], name: str) -> float:
    """Of a counter, weighted by the time of the steps at whose end it stood."""
    time = sum(step.end_ns - step.start_ns for step in steps)
    return sum(s.counters[name] * (s.end_ns - s.start_ns) for s in steps) / time if time else 0.0


def _of_sums(last: Mapping[str, int]) -> Iterator[MetricValue]:
    """What was counted over the whole run."""
    no_count = "the scheduler counts nothing of the kind"
    asked = last.get("prefix_asked", 0)
    yield (
        _value("prefix_hit_rate", last["prefix_found"] / asked, asked)
        if asked
        else _undefined("prefix_hit_rate", no_count)
    )
    for name in ("preemptions", "swaps_out"):
        yield _value(name, last[name], 1) if name in last else _undefined(name, no_count)


def _value(name: str, value: float, n: int) -> MetricValue:
    return MetricValue(name=name, value=float(value), n=n)


def _undefined(name: str, reason: str) -> MetricValue:
    return MetricValue(name=name, value=None, null_reason=reason)
