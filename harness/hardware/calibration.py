"""Measure a device's ceilings in about a second, and keep them with the hardware's row.

The numbers bound what may be believed, so every doubt is resolved upwards: the best of many short
repetitions, of several shapes and of several operations, and rates of one core times the cores
where the measurement with all of them was disturbed. Plausibility adds `headroom` on top.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.errors import InfrastructureError
from harness.hardware.ceilings import Ceilings
from harness.hardware.cpu import cpu
from harness.hardware.identity import HardwareRow

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float64", "float16", "bfloat16")
# A right result may beat a measured ceiling by this much. CPU: with the machine four times
# overbooked, memory bandwidth calibrated at 3.7 GB/s instead of 13.4 (factor 3.6), one core's cache
# and matrix rates at 0.8 of their quiet values.
CPU_HEADROOM = 4.0
# Below this share of the processor time asked for, a measurement with several threads waited for
# a core, and one late thread holds up all: it is not believed.
UNDISTURBED = 0.9
_MIB = 1024**2
_TIMEOUT_SECONDS = 120


def calibrate(device: str, threads: int, dtypes: Sequence[str] = DTYPES) -> Ceilings:
    """Measure in a process of its own, as cases are, so that this one stays without torch.

    Raises InfrastructureError with the last line of its output when that process fails.
    """
    arguments = [device, str(threads), ",".join(dtypes)]
    command = [sys.executable, "-P", "-m", "harness.hardware", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"calibrating '{device}' took longer than {_TIMEOUT_SECONDS} s; is the machine busy? "
            "'harness doctor' tells"
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise InfrastructureError(f"calibrating '{device}' failed: {last}")
    return Ceilings.model_validate_json(done.stdout)


def stored(hardware: HardwareRow, threads: int, dtypes: Sequence[str]) -> Ceilings | None:
    """Ceilings kept in the row for this number of threads, if they cover all these dtypes."""
    kept = (hardware.calibration or {}).get(str(threads))
    if kept is None:
        return None
    ceilings = Ceilings.model_validate(kept)
    return ceilings if set(dtypes) <= set(ceilings.flops_per_s) else None


def with_ceilings(hardware: HardwareRow, threads: int, ceilings: Ceilings) -> HardwareRow:
    """The row with these ceilings kept; where it has some already, the higher of each."""
    kept = dict(hardware.calibration or {})
    if str(threads) in kept:
        ceilings = ceilings.raised(Ceilings.model_validate(kept[str(threads)]))
    kept[str(threads)] = ceilings.model_dump(mode="json")
    return hardware.model_copy(update={"calibration": kept})


def measure(device: str, threads: int, dtypes: Sequence[str] = DTYPES) -> Ceilings:
    """Measure in this process. `threads` matters on a CPU alone."""
    import torch

    if torch.device(device).type == "cuda":
        from harness.hardware.gpu_calibration import measure_gpu

        return measure_gpu(torch.device(device), dtypes)
    before = torch.get_num_threads()
    try:
        return _measure_cpu(threads, dtypes)
    finally:
        torch.set_num_threads(before)


def _measure_cpu(threads: int, dtypes: Sequence[str]) -> Ceilings:
    """One core's cache and matrix rates and the memory's, then those of all threads together."""
    import torch

    host = cpu()
    cache_bytes = host.last_cache_bytes or 32 * _MIB
    torch.set_num_threads(1)
    cached = max(_stream(size) for size in (256 * 1024, _MIB, 4 * _MIB))
    matrix = {dtype: _matrix(getattr(torch, dtype), (128, 256, 512)) for dtype in dtypes}
    # Source and target together are half as large again as the cache, within 512 MiB in all.
    beyond = min(max(64 * _MIB, cache_bytes * 3 // 4), 256 * _MIB, host.memory_bytes // 16)
    memory = _stream(beyond)
    if threads > 1:
        torch.set_num_threads(threads)
        cached = _of_all(partial(_stream, threads * _MIB), cached, threads)
        for dtype in dtypes:
            kind = getattr(torch, dtype)
            matrix[dtype] = _of_all(partial(_matrix, kind, (512, 1024)), matrix[dtype], threads)
        memory = max(memory, _stream(beyond))
    return Ceilings(
        bandwidth_bytes_per_s=memory,
        flops_per_s=matrix,
        source="measured",
        cache_bandwidth_bytes_per_s=max(cached, memory),
        cache_bytes=cache_bytes,
        launch_seconds=1.0 / _rate(partial(torch.add, torch.ones(1), 1.0), 1.0),
        headroom=CPU_HEADROOM,
    )


def _of_all(measurement: Callable[[], float], one: float, threads: int) -> float:
    """The rate of all threads as measured, or one's times their number when it was disturbed."""
    wall, used = time.perf_counter(), time.process_time()
    rate = measurement()
    wall, used = time.perf_counter() - wall, time.process_time() - used
    disturbed = used < UNDISTURBED * threads * wall
    return threads * one if disturbed else max(rate, one)


def _stream(size: int) -> float:
    """Bytes a second of reading or copying `size` bytes, whichever is faster."""
    import torch

    source = torch.ones(size // 4)
    target = torch.zeros_like(source)
    rows = source.view(-1, 1024)
    return max(
        _rate(partial(target.copy_, source), 2 * size),
        _rate(source.sum, size),
        _rate(partial(torch.mv, rows, target[:1024]), size),
    )


def _matrix(dtype: torch.dtype, sizes: Sequence[int]) -> float:
    """FLOPs a second of square matrix products, the best of several sizes."""
    import torch

    best = 0.0
    for n in sizes:
        a, b = torch.ones(n, n, dtype=dtype), torch.ones(n, n, dtype=dtype)
        rate = _rate(partial(torch.mm, a, b), 2 * n**3)
        best = max(best, rate)
        # A dtype that the processor only emulates would take seconds at the next size.
        if 8 * 2 * n**3 / rate > 0.1:
            break
    return best


def _rate(thunk: Callable[[], Any], work: float) -> float:
    """Work a second of the best of at least 3 repetitions over 30 ms, after one to warm up."""
    thunk()
    best = float("inf")
    repetitions, begin = 0, time.perf_counter_ns()
    while repetitions < 3 or time.perf_counter_ns() - begin < 30_000_000:
        start = time.perf_counter_ns()
        thunk()
        best = min(best, time.perf_counter_ns() - start)
        repetitions += 1
    return work / (best * 1e-9)
