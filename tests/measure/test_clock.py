"""A clock that lies is caught at the stamp, before any number exists."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.measure.clock import Clock, for_device
from harness.measure.trace import ClockError


def reading(*values: Any) -> Clock:
    times: Iterator[Any] = iter(values)
    return Clock(lambda: next(times))


def test_stamps_are_what_was_read() -> None:
    clock = reading(3, 3, 8)
    assert [clock.stamp() for _ in range(3)] == [3, 3, 8]


def test_backwards_is_an_error() -> None:
    clock = reading(100, 40)
    clock.stamp()
    with pytest.raises(ClockError, match="backwards by 60 ns"):
        clock.stamp()


@pytest.mark.parametrize("value", [1.5, None, True, float("nan")])
def test_only_whole_nanoseconds_are_taken(value: Any) -> None:
    with pytest.raises(ClockError, match="not a whole number"):
        reading(value).stamp()


def test_the_device_has_finished_before_the_time_is_read() -> None:
    order: list[str] = []

    def read() -> int:
        order.append("read")
        return 1

    Clock(read, lambda: order.append("wait")).stamp()
    assert order == ["wait", "read"]


def test_a_job_may_bring_its_own_clock() -> None:
    clock = for_device("cpu", "time:monotonic_ns")
    assert clock.stamp() <= clock.stamp()


def test_a_timer_replaced_before_the_clock_is_made_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """gpu-mode/reference-kernels#162, from a technique's `__init__.py`: the worker imports that
    before it makes the clock."""
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 7)
    assert for_device("cpu").stamp() > 7
