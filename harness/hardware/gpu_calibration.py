"""Measure a GPU's ceilings between CUDA events: the best of a few repetitions each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from harness.hardware.ceilings import Ceilings

# A right result may beat a measured ceiling by this much: the best matrix rate of torch is 51 %
# (MI300X) to 87 % (A100) of the peak that a kernel may reach.
HEADROOM = 2.0
_MIB = 1024**2
_REPETITIONS = 5
_SIDES = (4096, 8192)  # of square products
_INNER = 20  # operations between two events, where one is too short to be timed


def measure_gpu(device: torch.device, dtypes: Sequence[str]) -> Ceilings:
    """Bandwidth of memory, cache and host link, matrix rates, launches, all-reduce of all GPUs."""
    properties = torch.cuda.get_device_properties(device)
    size = min(1024 * _MIB, properties.total_memory // 16)
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    bandwidth = _rate(partial(target.copy_, source), 2 * size)
    cache_bytes = getattr(properties, "L2_cache_size", None) or None
    cached = None
    if cache_bytes is not None:
        # In place, over a third of it: read and written again before anything else drives it out.
        part = source[: cache_bytes // 3 // 4]
        cached = max(
            bandwidth, _rate(_repeated(partial(part.mul_, 1.0)), _INNER * 2 * 4 * len(part))
        )
    host = torch.ones(size // 16, pin_memory=True)
    link = _rate(partial(target[: len(host)].copy_, host, non_blocking=True), 4 * len(host))
    one = torch.ones(1, device=device)
    return Ceilings(
        bandwidth_bytes_per_s=bandwidth,
        flops_per_s={dtype: _matrix_rate(getattr(torch, dtype), device) for dtype in dtypes},
        source="measured",
        cache_bandwidth_bytes_per_s=cached,
        cache_bytes=cache_bytes,
        host_to_device_bytes_per_s=link,
        all_reduce_bytes_per_s=_all_reduce_rate(),
        launch_seconds=_launch_seconds(partial(one.mul_, 1.0)),
        headroom=HEADROOM,
    )


def _matrix_rate(dtype: torch.dtype, device: torch.device) -> float:
    """FLOPs a second of square products, the best of some sizes."""
    best = 0.0
    for n in _SIDES:
        a = torch.randn(n, n, device=device).to(dtype)
        best = max(best, _rate(partial(torch.mm, a, a), 2 * n**3))
        # What only vector units compute would take seconds at the next size.
        if 8 * 2 * n**3 / best > 0.5:
            break
    return best


def _all_reduce_rate() -> float | None:
    """Bytes over the time of an all-reduce over every GPU of the machine; None with one."""
    count = torch.cuda.device_count()
    if count < 2:
        return None
    size = 64 * _MIB
    parts = [torch.ones(size // 4, device=f"cuda:{i}") for i in range(count)]
    # torch leaves its events untyped.
    if not torch.cuda.nccl.is_available(parts):  # type: ignore[no-untyped-call]
        return None

    def reduce() -> None:
        # torch leaves its events untyped.
        torch.cuda.nccl.all_reduce(parts)  # type: ignore[no-untyped-call]
        for i in range(count):
            torch.cuda.synchronize(i)

    reduce()
    best = min(_seconds(reduce) for _ in range(_REPETITIONS))
    return size / best


def _launch_seconds(thunk: Callable[[], Any]) -> float:
    """Seconds between operations that do nothing, one behind the other: the host's or the GPU's."""
    calls = 200
    rate = _rate(_repeated(thunk, calls), calls)
    return 1.0 / rate


def _repeated(thunk: Callable[[], Any], calls: int = _INNER) -> Callable[[], None]:
    def several() -> None:
        for _ in range(calls):
            thunk()

    return several


def _seconds(thunk: Callable[[], Any]) -> float:
    start = time.perf_counter()
    thunk()
    return time.perf_counter() - start


def _rate(thunk: Callable[[], Any], work: float) -> float:
    """Work a second of the best repetition between CUDA events, after one to warm up."""
    thunk()
    best_ms = float("inf")
    for _ in range(_REPETITIONS):
        # torch leaves its events untyped.
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        thunk()
        end.record()
        end.synchronize()
        best_ms = min(best_ms, start.elapsed_time(end))
    return work / (best_ms * 1e-3)
