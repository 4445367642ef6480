"""A serve point's requests: a function of the point, with the rate, the burstiness and the lengths
that it names."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any

import pytest

from harness.errors import UsageError
from harness.suite import traces
from harness.suite.arrivals import arrivals, longest
from harness.suite.points import ServePoint


def _point(**keys: Any) -> ServePoint:
    fixed = {"prompt_tokens": 7, "new_tokens": 3} if "trace" not in keys else {}
    given = {"requests": 4000, "rate": 5.0, "slots": 4, "max_tokens": 64, **fixed, **keys}
    return ServePoint(**given)


def _gaps(point: ServePoint) -> list[float]:
    times = [0, *(a.at_ns for a in arrivals(point))]
    return [(b - a) / 1e9 for a, b in pairwise(times)]


@pytest.mark.parametrize(
    ("keys", "spread"),
    [
        ({"arrivals": "poisson"}, 1.0),
        ({"arrivals": "gamma", "burstiness": 3.0}, 3.0),
        ({"arrivals": "gamma", "burstiness": 0.25}, 0.25),
    ],
)
def test_gaps_have_the_mean_and_the_spread_they_should(keys: dict[str, Any], spread: float) -> None:
    gaps = _gaps(_point(**keys))
    assert fmean(gaps) == pytest.approx(0.2, rel=0.15)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(spread, rel=0.15)
    assert min(gaps) >= 0


def test_all_at_once() -> None:
    assert {a.at_ns for a in arrivals(_point(arrivals="at_once", rate=None))} == {0}


def test_a_trace_gives_its_times_and_its_scaled_lengths() -> None:
    point = _point(
        requests=300, arrivals="trace", rate=None, trace="azure-2023-code", scale=0.125, seed=3
    )
    found = arrivals(point)
    rows = traces.read("azure-2023-code").rows
    lengths = [(max(1, round(r.prompt_tokens / 8)), max(1, round(r.new_tokens / 8))) for r in rows]
    got = [(a.prompt_tokens, a.new_tokens) for a in found]
    start = next(i for i in range(1701) if lengths[i : i + 300] == got)
    assert [a.at_ns for a in found] == [
        r.at_ns - rows[start].at_ns for r in rows[start : start + 300]
    ]
    assert longest(found) == max(sum(pair) for pair in got)
    # At a rate the same times are stretched: bursts stay bursts.
    quick = arrivals(point.model_copy(update={"rate": 50.0}))
    assert quick[-1].at_ns == pytest.approx(299 / 50 * 1e9)
    stretch = quick[-1].at_ns / found[-1].at_ns
    assert [a.at_ns for a in quick] == pytest.approx([a.at_ns * stretch for a in found], abs=1)


def test_a_seed_chooses_the_window_and_nothing_else_changes_it() -> None:
    point = _point(requests=100, trace="azure-2023-conversation", scale=0.5)
    assert arrivals(point) == arrivals(point)
    assert arrivals(point) != arrivals(point.model_copy(update={"seed": 1}))
    other = point.model_copy(update={"slots": 9, "rate": 1.0, "state_bytes": 5_000_000})
    assert [a.pieces for a in arrivals(other)] == [a.pieces for a in arrivals(point)]


def test_blocks_of_a_trace_are_named_pieces() -> None:
    point = _point(requests=400, trace="mooncake-2025-synthetic", scale=1 / 64)
    rows = traces.read("mooncake-2025-synthetic").rows
    for arrival in arrivals(point):
        row = next(r for r in rows if r.blocks[0] == int((arrival.pieces[0].name or "").split()[1]))
        assert arrival.pieces[0].tokens in (8, arrival.prompt_tokens)
        assert row.blocks[0] >= 0
        assert all(piece.tokens == 8 for piece in arrival.pieces[:-1])
    names = [piece.name for a in arrivals(point) for piece in a.pieces]
    assert len(set(names)) < len(names)


def test_shared_beginnings() -> None:
    found = arrivals(_point(requests=200, prefix_tokens=20, prefixes=3))
    assert {a.pieces[0].name for a in found} == {"prefix 0", "prefix 1", "prefix 2"}
    assert {a.prompt_tokens for a in found} == {27}
    assert {a.pieces[1].name for a in found} == {None}


def test_a_trace_that_is_too_short_or_another_one() -> None:
    with pytest.raises(UsageError, match=r"holds 2,000 requests, and 2,001 are asked for"):
        arrivals(_point(requests=2001, trace="azure-2023-code"))
    with pytest.raises(UsageError, match="not the one this case was planned with"):
        arrivals(_point(requests=5, trace="azure-2023-code", trace_digest="0" * 64))
