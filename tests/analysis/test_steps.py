"""Growth of the step gap inside a run, on gaps whose growth is known."""

import random
from types import ModuleType
from typing import Any

import pytest

from harness.analysis.steps import step_growth
from harness.run import RunRecord, SampleSet


def _run(
    example: ModuleType, gaps: list[int], number: int = 1, tokens: float | None = None, **at: Any
) -> RunRecord:
    of = example.case("mha", **at)
    samples = [SampleSet(metric="step_gap", unit="ns", values=gaps)]
    metrics = {} if tokens is None else {"tokens_per_step": tokens}
    run: RunRecord = example.record(of, number, samples=samples, metrics=metrics)
    return run


def test_the_slope_of_exact_gaps_over_repetitions(example_sweep: ModuleType) -> None:
    gaps = [1_000_000 + 500 * j for j in range(63)]
    run = _run(example_sweep, gaps * 3, tokens=1.0)
    growth = step_growth(example_sweep.case("mha"), [run])
    assert growth is not None
    assert growth.per_token_ns == pytest.approx(500)
    assert (growth.ci_low, growth.n_processes) == (None, 1)


def test_one_slow_step_does_not_tilt_the_line(example_sweep: ModuleType) -> None:
    gaps = [1_000_000 + 500 * j for j in range(63)]
    stray = list(gaps)
    stray[-1] = 90_000_000
    growth = step_growth(example_sweep.case("mha"), [_run(example_sweep, gaps + stray + gaps)])
    assert growth is not None
    assert growth.per_token_ns == pytest.approx(500)


def test_the_interval_is_over_processes(example_sweep: ModuleType) -> None:
    noise = random.Random(2)
    runs = [
        _run(
            example_sweep,
            [int(1e6 + 500 * j + noise.gauss(0, 2e3)) for j in range(63)],
            number=n,
        )
        for n in (1, 2, 3)
    ]
    growth = step_growth(example_sweep.case("mha"), runs)
    assert growth is not None
    assert growth.ci_low is not None
    assert growth.ci_high is not None
    assert growth.ci_low < 500 < growth.ci_high
    assert growth.n_processes == 3


@pytest.mark.parametrize(
    ("count", "tokens", "new"),
    [(62, 1.0, 64), (63, 2.0, 64), (7, 1.0, 8), (0, 1.0, 64)],
    ids=["not a whole repetition", "two tokens a step", "too few positions", "no gaps"],
)
def test_gaps_whose_place_is_no_position_give_nothing(
    count: int, tokens: float, new: int, example_sweep: ModuleType
) -> None:
    run = _run(example_sweep, [1_000_000] * count, tokens=tokens, new=new)
    assert step_growth(example_sweep.case("mha", new=new), [run]) is None
