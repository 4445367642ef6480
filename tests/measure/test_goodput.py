from itertools import pairwise

import pytest

from harness.measure.goodput import goodput, meets
from harness.measure.latency import Timing
from harness.suite.slo import Slo

MS = 1_000_000


def timing(ttft_ms: int, tpot_ms: int, tokens: int = 3) -> Timing:
    stamps = [ttft_ms + tpot_ms * i for i in range(tokens)]
    gaps = tuple((a * MS, b * MS, 1) for a, b in pairwise(stamps))
    return Timing(stamps[0] * MS, stamps[-1] * MS, tokens, 1, gaps)


@pytest.mark.parametrize(
    ("ttft_ms", "tpot_ms", "slo", "met"),
    [
        (100, 20, Slo(ttft_ms=100, tpot_ms=20), True),
        (101, 20, Slo(ttft_ms=100, tpot_ms=20), False),
        (100, 21, Slo(ttft_ms=100, tpot_ms=20), False),
        (900, 90, Slo(), True),
        (900, 20, Slo(tpot_ms=20), True),
    ],
)
def test_every_bound_must_be_met(ttft_ms: int, tpot_ms: int, slo: Slo, met: bool) -> None:
    assert meets(timing(ttft_ms, tpot_ms), slo) is met


def test_one_token_meets_no_bound_on_the_time_per_token() -> None:
    """Elsewhere a request of one token passes any such bound (sglang#1585)."""
    assert not meets(timing(10, 0, tokens=1), Slo(tpot_ms=1000))
    assert meets(timing(10, 0, tokens=1), Slo(ttft_ms=1000))


def test_tokens_held_back_meet_no_bound_on_the_time_per_token() -> None:
    assert not meets(timing(10, 1), Slo(tpot_ms=1000), tpot_known=False)


def test_without_an_objective_there_is_a_reason() -> None:
    found = goodput([], None, 0)
    assert (found.value, found.null_reason) == (None, "the suite names no slo")
