"""What is found in a series: steps both ways, drift, noise, counts; and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.detect.settings import DEFAULT
from harness.analysis.history.findings import judge
from harness.analysis.history.methods import method
from harness.analysis.history.series import History, Key, Series
from harness.errors import UsageError
from harness.metrics import METRICS


def series(values: np.ndarray, metric: str = "tpot", source: str = "measured") -> Series:
    n = len(values)
    places = np.arange(n, dtype=np.intp)
    errors = np.full(n, np.nan)
    return Series(Key(1, 1, source, metric), METRICS[metric], places, values.astype(float), errors)


def noisy(random: np.random.Generator, nights: int = 60, sd: float = 0.01) -> np.ndarray:
    return 1e6 * np.exp(sd * random.standard_normal(nights))


@pytest.mark.parametrize("metric", ["tpot", "throughput"])
@pytest.mark.parametrize("factor", [1.06, 1 / 1.06])
def test_a_step_is_found_in_both_directions(
    random: np.random.Generator, metric: str, factor: float
) -> None:
    """asv#1617 and groovy#2787: a throughput that fell is no improvement, nor the other way."""
    values = noisy(random)
    values[40:] *= factor
    (found,) = judge([series(values, metric)])
    steps = [f for f in found.findings if f.by == "history"]
    assert len(steps) == 1
    assert abs(steps[0].at - 40) <= 3
    assert steps[0].worse == ((factor > 1) == (metric == "tpot"))
    assert abs(abs(steps[0].effect) - np.log(1.06)) < 0.012
    assert steps[0].low < steps[0].effect < steps[0].high


def test_quiet_series_raise_no_step(random: np.random.Generator) -> None:
    found = judge([series(noisy(random, 120)) for _ in range(40)])
    kinds = [f.by for j in found for f in j.findings if f.kind != "noise"]
    # 4,800 nights; the newest alone are suspects in about 1 % of series. None of it alarms yet.
    assert kinds.count("history") <= 2
    assert kinds.count("level") == 0
    assert kinds.count("tonight") <= 3


@pytest.mark.parametrize("height", [1.2, 3.0])
def test_a_spike_of_one_night_is_no_step(random: np.random.Generator, height: float) -> None:
    """otava#150 and asv#881: one night's spike is not two changes."""
    values = noisy(random)
    values[30] *= height
    (found,) = judge([series(values)])
    assert [f for f in found.findings if f.by == "history"] == []


def test_two_points_make_no_change(random: np.random.Generator) -> None:
    """orion#263: a change point at the second point of a segment of nothing."""
    (found,) = judge([series(np.array([1e6, 2e6]))])
    assert found.findings == ()
    (found,) = judge([series(np.array([1e6, 1e6, 2e6, 2e6, 2e6]))])
    assert found.findings == ()


def test_a_clock_of_two_states_is_mostly_no_step(random: np.random.Generator) -> None:
    made = []
    for _ in range(30):
        slow = np.cumsum(random.random(60) >= 0.85) % 2
        made.append(series(noisy(random, sd=0.005) * 1.03**slow))
    found = judge(made)
    steps = [f for j in found for f in j.findings if f.by == "history" and f.worse]
    # Half an alert in 100 nights, before anything is confirmed.
    assert len(steps) <= 0.005 * 30 * 60


def test_three_small_steps_are_a_drift_against_the_accepted_level(
    random: np.random.Generator,
) -> None:
    """asv#932: each is too small to be seen, their sum is not."""
    values = noisy(random, 90, sd=0.01)
    for at in (25, 45, 65):
        values[at:] *= 1.012
    (found,) = judge([series(values)])
    assert [f.kind for f in found.findings if f.worse and f.kind != "noise"] != []
    total = sum(f.effect for f in found.findings if f.kind != "noise")
    assert total > 0.02


def test_a_slow_slope_is_a_drift(random: np.random.Generator) -> None:
    values = noisy(random, 200, sd=0.01) * np.exp(0.0002 * np.arange(200))
    (found,) = judge([series(values)])
    assert {f.kind for f in found.findings if f.worse} & {"drift", "step"}
    clean = noisy(random, 200, sd=0.01)
    (found,) = judge([series(clean)])
    assert "drift" not in {f.kind for f in found.findings}


def test_what_was_accepted_is_no_change(random: np.random.Generator) -> None:
    values = noisy(random, 120, sd=0.004)
    values[60:] *= 1.05
    (found,) = judge([series(values)])
    assert [f.by for f in found.findings if f.worse and f.kind != "noise"] == ["history"]
    (found,) = judge([series(values)], {0: (60, None)})
    assert [f for f in found.findings if f.worse and f.kind != "noise"] == []
    # A level that was set by hand is held on to.
    (found,) = judge([series(values)], {0: (60, 1e6)})
    assert [(f.kind, f.worse) for f in found.findings if f.kind != "noise"] == [("drift", True)]


def test_the_newest_night_is_a_suspect_at_once(random: np.random.Generator) -> None:
    values = noisy(random)
    values[-1] *= 1.10
    (found,) = judge([series(values)])
    (suspect,) = found.findings
    assert (suspect.kind, suspect.by) == ("step", "tonight")
    assert suspect.first <= 59
    assert suspect.at >= 57


def test_noise_that_grew_is_told(random: np.random.Generator) -> None:
    values = np.concatenate([noisy(random, 60, 0.004), noisy(random, 20, 0.03)])
    (found,) = judge([series(values)])
    assert [f.worse for f in found.findings if f.kind == "noise"] == [True]


def test_counts_need_no_statistics() -> None:
    """Memory and compiled code repeat to the digit: one night is enough, a byte is too little."""
    values = np.full(20, 1e9)
    values[-1] *= 1.02
    (found,) = judge([series(values, "state_bytes")])
    assert [(f.by, f.at, f.confidence) for f in found.findings] == [("count", 19, 1.0)]
    values[-1] = 1e9 + 1
    (found,) = judge([series(values, "state_bytes")])
    assert found.findings == ()
    # Small rises add up against what was accepted.
    (found,) = judge([series(1e9 * 1.004 ** np.arange(4), "state_bytes", "static")])
    assert [f.by for f in found.findings] == ["count"]
    (found,) = judge([series(np.full(20, 64.0), "peak_bytes")])
    assert found.findings == ()


def test_a_series_says_what_it_could_not_have_shown(random: np.random.Generator) -> None:
    calm, wild = judge([series(noisy(random, sd=0.005)), series(noisy(random, sd=0.05))])
    assert calm.smallest is not None
    assert wild.smallest is not None
    assert 0.005 < calm.smallest < 0.03
    assert 0.08 < wild.smallest < 0.3


@pytest.mark.parametrize(
    ("values", "metric", "says"),
    [
        ([1e6], "tpot", "one night is no history"),
        ([1e6, 0.0, 1e6], "tpot", "not positive"),
        ([1e6, -1.0, 1e6], "tpot", "not positive"),
        ([1.0, 2.0, 3.0], "intensity", "neither better high nor low"),
    ],
)
def test_what_cannot_be_judged_says_why(values: list[float], metric: str, says: str) -> None:
    (found,) = judge([series(np.array(values), metric)])
    assert says in found.refused
    assert found.findings == ()


def test_asv_finds_the_same_step_and_knows_the_direction(random: np.random.Generator) -> None:
    values = noisy(random)
    values[30:] *= 0.9
    (found,) = judge([series(values, "throughput")], method=method("asv"))
    steps = [f for f in found.findings if f.by == "history"]
    assert [(f.worse, f.confidence) for f in steps] == [(True, None)]
    assert abs(steps[0].at - 30) <= 2


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'asv'"):
        method("asvv")


def test_empty_history_is_judged() -> None:
    assert judge([]) == []
    assert History((), (), {}, {}, {}, {}).series == ()
    assert DEFAULT.effect == 0.01
