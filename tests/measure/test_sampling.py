"""When warm-up and sampling stop, on repetitions with known times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.errors import UsageError
from harness.measure.sampling import sample, warm_up
from harness.measure.trace import Emitted, Step, Submission, Trace
from harness.suite.case import MeasureSettings


def repetition(gap: int, new_tokens: int = 5, first: int = 100) -> Trace:
    stamps = [first + gap * i for i in range(new_tokens)]
    return Trace(
        (Submission(0, 0, 8),),
        tuple(Emitted(0, stamp, (1,)) for stamp in stamps),
        tuple(Step(a, b, 1) for a, b in zip([0, *stamps], stamps, strict=False)),
    )


def playing(gaps: list[int]) -> tuple[Callable[[], Trace | None], list[int]]:
    """Repetitions with these gaps, then None; and the list of those played."""
    rest: Iterator[int] = iter(gaps)
    played: list[int] = []

    def repeat() -> Trace | None:
        gap = next(rest, None)
        if gap is None:
            return None
        played.append(gap)
        return repetition(gap)

    return repeat, played


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The budget's clock: every reading is half a second later."""
    now = [0.0]

    def monotonic() -> float:
        now[0] += 0.5
        return now[0]

    monkeypatch.setattr("harness.measure.sampling.time.monotonic", monotonic)
    return now


def settings(
    precision: float = 0.05, min_samples: int = 20, seconds: float = 8e4
) -> MeasureSettings:
    return MeasureSettings(
        precision=precision, min_samples=min_samples, max_seconds=seconds, timeout_seconds=6e5
    )


def test_warm_up_goes_on_until_two_agree() -> None:
    """Within 5 %, or within twice the precision that is asked for."""
    repeat, played = playing([100, 110, 104, 106, 106])
    found = warm_up(repeat, settings(precision=0.02))
    assert played == [100, 110, 104, 106]
    assert (found.repetitions, found.stable) == (4, True)
    assert found.shortest_ns == 100 + 4 * 100
    repeat, played = playing([100, 110, 104, 106])
    assert warm_up(repeat, settings(precision=0.06)).stable
    assert played == [100, 110]


def test_warm_up_is_bounded_in_number() -> None:
    repeat, played = playing([200, 100, 50, 25, 12, 6, 3, 1])
    assert not warm_up(repeat, settings()).stable
    assert len(played) == 6


def test_warm_up_ends_without_prompts() -> None:
    assert warm_up(lambda: None, settings()).shortest_ns is None


def test_warm_up_is_bounded_in_time(clock: list[float]) -> None:
    """An expensive case is warmed up once, and always by a repetition that nobody watched."""
    repeat, played = playing([200] * 9)
    found = warm_up(repeat, settings(seconds=1.0))
    assert played == [200]
    assert (found.repetitions, found.stable) == (1, None)


def test_sampling_stops_when_precise() -> None:
    repeat, played = playing([100, 101, 99, 100, 101, 100, 100, 100])
    found = sample(repeat, settings(precision=0.02, min_samples=24))
    assert found.stopped == "precision"
    assert len(played) == 6
    assert found.typical.precision == pytest.approx(0.01)


def test_one_repetition_is_never_precise() -> None:
    """Forty equal gaps of one repetition say nothing about the next one."""
    rest = iter([repetition(100, new_tokens=41)] * 9)
    assert len(sample(lambda: next(rest, None), settings()).traces) == 3


def test_noise_asks_for_more_repetitions() -> None:
    repeat, played = playing([100, 120] * 40)
    assert sample(repeat, settings(precision=0.02, seconds=8e4)).stopped == "prompts"
    assert len(played) == 80


def test_precision_waits_for_the_fewest_samples() -> None:
    """Four gaps a repetition: 40 samples need ten, although six would be precise."""
    repeat, played = playing([100] * 30)
    assert sample(repeat, settings(min_samples=40)).stopped == "precision"
    assert len(played) == 10


def test_time_ends_sampling_and_is_told(clock: list[float]) -> None:
    repeat, played = playing([100, 200] * 50)
    found = sample(repeat, settings(precision=0.001, seconds=10.0))
    assert found.stopped == "time"
    assert 2 < len(played) < 20


def test_one_repetition_suffices_where_it_alone_takes_all_the_time(clock: list[float]) -> None:
    repeat, played = playing([100] * 9)
    found = sample(repeat, settings(seconds=0.4))
    assert (found.stopped, len(found.traces), len(played)) == ("time", 1, 1)


def test_no_prompt_at_all_is_an_error() -> None:
    with pytest.raises(UsageError, match="no unused prompts"):
        sample(lambda: None, settings())


def test_prefill_alone_is_sampled_by_its_first_token() -> None:
    traces = [repetition(1, new_tokens=1, first=f) for f in (100, 101, 100, 99, 100, 100, 100)]
    rest = iter(traces)
    found = sample(lambda: next(rest, None), settings(min_samples=6, precision=0.05))
    assert found.stopped == "precision"
    assert found.typical.value == 100
