"""A fixture that times on a GPU: between CUDA events, and with nothing left in the L2 cache.

    pytest_plugins = ["harness.interop.pytest_benchmark.gpu"]      # in conftest.py

    def test_attention(gpu_benchmark):
        gpu_benchmark(attention, q, k, v)

pytest-benchmark's own clock would time the launch: a kernel runs when the host has long gone on.
Here each round is a flush, an event, the call and an event on one stream, and the host waits when
all four are handed over, so that the launch hides behind the flush. Where there is no GPU, the
fixture is `benchmark` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pytest

ROUNDS, WARM_UP = 50, 10
_MIB = 1024**2


class Device(Protocol):
    """What the fixture needs of a device; `torch.cuda` by `Cuda`."""

    def event(self) -> Any:
        """A recorded event: it knows when the device came by, and the ms since another one."""
        ...

    def flush(self) -> None:
        """Drive everything out of the last-level cache, without waiting."""
        ...


class Cuda:
    """The current CUDA (or ROCm) device."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        size = getattr(torch.cuda.get_device_properties(), "L2_cache_size", 0) or 64 * _MIB
        # Larger than the cache, or a part of what was there would stay.
        self._junk = torch.empty(4 * size, dtype=torch.int8, device="cuda")

    def event(self) -> Any:
        """A recorded event."""
        # torch leaves its events untyped.
        event = self._torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def flush(self) -> None:
        """Write more than the cache holds."""
        self._junk.zero_()


class Stamp:
    """A point in the device's time; the difference of two is in seconds, as the plugin asks."""

    def __init__(self, device: Device) -> None:
        self._event = device.event()

    def __sub__(self, earlier: Stamp) -> float:
        self._event.synchronize()
        return float(earlier._event.elapsed_time(self._event)) / 1e3


def timed(
    benchmark: Any,
    device: Device,
    function: Callable[..., Any],
    *args: Any,
    rounds: int = ROUNDS,
    warm_up: int = WARM_UP,
    **kwargs: Any,
) -> Any:
    """Let `benchmark` time the function on the device, a call a round; what it returned last."""
    # The plugin takes its clock from the command line only, and any callable will do.
    benchmark._timer = partial(Stamp, device)
    return benchmark.pedantic(
        function, args=args, kwargs=kwargs, setup=device.flush, rounds=rounds, warmup_rounds=warm_up
    )


@pytest.fixture
def gpu_benchmark(benchmark: Any) -> Callable[..., Any]:
    """`benchmark`, timing on the GPU: call it with a function and its arguments."""
    import torch

    if not torch.cuda.is_available():
        made: Callable[..., Any] = benchmark
        return made
    return partial(timed, benchmark, Cuda())
