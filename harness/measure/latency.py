"""From traces to the metrics of `harness.metrics`, by exactly the formulas printed there.

Pure functions on stamps. What is undefined is None with a reason; nothing here is ever 0 or NaN
because there was nothing to measure. Requests that share both stamps of a gap (a batch that steps
together) give one gap, not one each: they are one observation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.measure.interval import grouped_median, percentile
from harness.measure.trace import Emitted, MeasurementError, Trace
from harness.run import MetricValue

# Gaps a percentile needs before it exists: one beyond it must be expected.
_FEWEST_GAPS = {"itl_p50": 1, "itl_p90": 10, "itl_p99": 100}
_SHARES = {"itl_p50": 0.5, "itl_p90": 0.9, "itl_p99": 0.99}


@dataclass(frozen=True)
class Timing:
    """One request's times. `ttft_ns + sum of gaps = e2e_ns`, always."""

    ttft_ns: int
    e2e_ns: int
    tokens: int
    first_tokens: int  # of the first emission
    gaps: tuple[tuple[int, int, int], ...]  # (previous stamp, stamp, tokens) after the first

    @property
    def tpot_ns(self) -> float | None:
        """(last stamp - first stamp) / (tokens - tokens of the first emission), if there is one."""
        if self.tokens == self.first_tokens:
            return None
        return (self.e2e_ns - self.ttft_ns) / (self.tokens - self.first_tokens)


@dataclass(frozen=True)
class Phases:
    """Time of a trace's steps by what they did, added up step by step, never by subtraction."""

    prompt_tokens: int
    prefill_ns: int
    decode_tokens: int
    decode_ns: int
    unclear: str | None  # why the phases cannot be told apart


def timings(trace: Trace) -> list[Timing]:
    """Every request's times. MeasurementError for a request without a token or a zero time."""
    result = []
    for submission in trace.submissions:
        emissions = trace.by_request[submission.request]
        if not emissions:
            raise MeasurementError(f"request {submission.request} emitted no token")
        timing = _timing(submission.stamp_ns, emissions)
        if timing.ttft_ns <= 0 or any(b <= a for a, b, _ in timing.gaps):
            raise MeasurementError(
                f"request {submission.request} has a time of zero or less between two stamps"
            )
        result.append(timing)
    return result


def step_gaps(trace: Trace) -> list[int]:
    """Gaps between consecutive emissions of a request in ns, once per pair of stamps."""
    return _gaps(timings(trace))


def phases(trace: Trace) -> Phases:
    """Split the steps at the last first emission: prefill up to it, decode after it."""
    firsts = {request: emissions[0] for request, emissions in trace.by_request.items() if emissions}
    end = max(first.stamp_ns for first in firsts.values())
    early = [e for e in trace.emissions if e.stamp_ns <= end and e is not firsts[e.request]]
    most = max(len(first.token_ids) for first in firsts.values())
    unclear = None
    if most > 1:
        unclear = f"a first emission carries {most} tokens: prefill and decode cannot be told apart"
    elif early:
        unclear = "some requests decoded while others were still in prefill"
    return Phases(
        prompt_tokens=sum(s.prompt_tokens for s in trace.submissions),
        prefill_ns=sum(s.duration_ns for s in trace.steps if s.end_ns <= end),
        decode_tokens=sum(s.tokens for s in trace.steps if s.end_ns > end),
        decode_ns=sum(s.duration_ns for s in trace.steps if s.end_ns > end),
        unclear=unclear,
    )


def burst(traces: Sequence[Trace], lookahead: int) -> str | None:
    """Why times between emissions are not times between tokens; None where they are.

    A step settles one token of a sequence and the proposals that it accepts, `lookahead` at most.
    An emission with more holds tokens that were held back, and the gap before it is not the time
    that they took.
    """
    most = max(len(e.token_ids) for trace in traces for e in trace.emissions)
    if most <= 1 + lookahead:
        return None
    return (
        f"an emission carries {most} tokens and a step settles at most {1 + lookahead}: tokens "
        "were held back, so times between emissions are not those of tokens"
    )


def metrics(traces: Sequence[Trace], lookahead: int) -> list[MetricValue]:
    """The time metrics of at least one repetition, pooled over repetitions.

    Args:
        lookahead: most proposals of one sequence in one step, of `harness.plan.Limits`.
    """
    found = [timings(trace) for trace in traces]
    held_back = burst(traces, lookahead)
    only_one = "every request's first emission is also its last"
    later = sum(len(t.gaps) for group in found for t in group)
    later_tokens = sum(t.tokens - t.first_tokens for group in found for t in group)
    tpots = [[t.tpot_ns for t in group if t.tpot_ns is not None] for group in found]
    rates = [
        sum(t.tokens for t in group)
        / (trace.emissions[-1].stamp_ns - trace.submissions[0].stamp_ns)
        * 1e9
        for trace, group in zip(traces, found, strict=True)
    ]
    split = [phases(trace) for trace in traces]
    values = [
        _median("ttft", [[t.ttft_ns for t in group] for group in found], ""),
        _median("tpot", tpots, only_one),
        *_inter_token(found, only_one),
        _median("step_gap", [_gaps(group) for group in found], only_one, pool=True),
        MetricValue(name="tokens_per_step", value=later_tokens / later, n=later)
        if later
        else _undefined("tokens_per_step", only_one),
        _median("e2e", [[t.e2e_ns for t in group] for group in found], ""),
        _median("throughput", [[rate] for rate in rates], ""),
        _rate("prefill_throughput", [(s.prompt_tokens, s.prefill_ns, s.unclear) for s in split]),
        _rate("decode_throughput", [(s.decode_tokens, s.decode_ns, s.unclear) for s in split]),
    ]
    if held_back is None:
        return values
    # What the user waited for stays true: the first emission, the last, and all tokens over all.
    whole = ("ttft", "e2e", "throughput")
    return [v if v.name in whole else _undefined(v.name, held_back) for v in values]


def _gaps(found: Sequence[Timing]) -> list[int]:
    pairs = {(a, b) for timing in found for a, b, _ in timing.gaps}
    return [b - a for a, b in sorted(pairs)]


def _timing(submitted_ns: int, emissions: Sequence[Emitted]) -> Timing:
    first, last = emissions[0], emissions[-1]
    return Timing(
        ttft_ns=first.stamp_ns - submitted_ns,
        e2e_ns=last.stamp_ns - submitted_ns,
        tokens=sum(len(e.token_ids) for e in emissions),
        first_tokens=len(first.token_ids),
        gaps=tuple(
            (before.stamp_ns, after.stamp_ns, len(after.token_ids))
            for before, after in pairwise(emissions)
        ),
    )


def _inter_token(by_trace: Sequence[Sequence[Timing]], none: str) -> list[MetricValue]:
    """Percentiles of gap / tokens, weighted by tokens. A percentile needs its number of gaps."""
    # One observation is a gap between two stamps with the tokens of one emission; requests that
    # share it add their weight.
    weights: Counter[tuple[int, int, int, int]] = Counter()
    for index, found in enumerate(by_trace):
        for timing in found:
            for before, after, tokens in timing.gaps:
                weights[index, before, after, tokens] += tokens
    gaps = len({key[:3] for key in weights})
    values = [((b - a) / tokens, float(w)) for (_, a, b, tokens), w in weights.items()]
    result = []
    for name, needed in _FEWEST_GAPS.items():
        if gaps >= needed:
            value = percentile(values, _SHARES[name])
            result.append(MetricValue(name=name, value=value, n=gaps))
        else:
            reason = f"needs {needed} gaps, has {gaps}" if gaps else none
            result.append(_undefined(name, reason))
    return result


def _median(
    name: str, groups: Sequence[Sequence[float]], none: str, *, pool: bool = False
) -> MetricValue:
    """A metric from the values of each repetition; undefined for the reason `none` without any."""
    filled = [group for group in groups if group]
    if not filled:
        return _undefined(name, none)
    found = grouped_median(filled, pool=pool)
    n = sum(len(group) for group in filled)
    return MetricValue(name=name, value=found.value, n=n, ci_low=found.low, ci_high=found.high)


def _rate(name: str, parts: Sequence[tuple[int, int, str | None]]) -> MetricValue:
    """Tokens / time of one phase, median over repetitions."""
    unclear = next((reason for _, _, reason in parts if reason is not None), None)
    if unclear is not None:
        return _undefined(name, unclear)
    if any(time_ns == 0 for _, time_ns, _ in parts):
        return _undefined(name, "no step came after the first emission")
    return _median(name, [[tokens / time_ns * 1e9] for tokens, time_ns, _ in parts], "")


def _undefined(name: str, reason: str) -> MetricValue:
    return MetricValue(name=name, value=None, null_reason=reason)
