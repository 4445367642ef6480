"""Tuning's look at values over real launchers: every configuration tried is right, by values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from harness import registry
from harness.kernel import implementation
from harness.worker.tuning import Bench

# A few of each: the interpreter is slow, and every configuration runs several times.
SHAPES = {"rms_norm": 2, "swiglu": 2, "gather_blocks": 1}


class Untimed:
    """The interpreter's time says nothing, so that all configurations take equally long."""

    how, count = "calls", 1

    def __init__(self, calls: Sequence[partial[Any]]) -> None:
        self._calls, self.last = calls, len(calls) - 1

    def sample(self, turn: int | None = None) -> float:
        return 1.0

    def again(self) -> Any:
        return self._calls[self.last]()


@pytest.mark.parametrize("name", SHAPES)
def test_every_configuration_gives_right_values(name: str) -> None:
    spec = registry.kernel(name)
    bench = Bench(
        spec, implementation(spec, "triton")[1], Untimed, arch="interpreter", device="cpu"
    )
    (row,) = bench.tune(["float32"], [spec.shapes["test"][SHAPES[name]]])
    assert [each.refused for each in row.tried if each.refused] == []
    assert len(row.tried) > 1
    assert row.config == row.tried[0].config
