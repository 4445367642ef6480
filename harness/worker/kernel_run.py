"""A run of one kernel by itself: gates at its own shape, timing, gates again, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness import registry
from harness.gates.plausibility import check_floor
from harness.gates.poison import poisoned
from harness.gates.tolerance import check_numeric
from harness.hardware.estimate import KERNEL_INPUT_BYTES, kernel_cost, kernel_floor_seconds
from harness.kernel import KernelSpec, implementation
from harness.measure import telemetry
from harness.measure.clock import Clock, for_device
from harness.measure.interval import Median, median
from harness.measure.trace import ContendedError
from harness.measure.watch import for_device as for_watch
from harness.run import GateResult, MetricValue, SampleSet
from harness.suite.points import KernelPoint
from harness.technique import load
from harness.worker import watched
from harness.worker.job import Job
from harness.worker.notes import Notes

# A sample is so many calls that reading the clock, some 50 ns, stays below a thousandth of it.
_SAMPLE_NS = 100_000
_WARM_UP_SECONDS = 0.2


@dataclass(frozen=True)
class _Kernel:
    """A kernel at one shape, and where it runs."""

    job: Job
    point: KernelPoint
    spec: KernelSpec
    call: Callable[..., Tensor]

    def inputs(self, number: int, dtype: torch.dtype) -> Any:
        """Inputs number so and so of this run: no two of a case alike, nights alike."""
        generator = torch.Generator().manual_seed(self.job.round * 1000 + number)
        return load(self.spec.inputs)(self.point.sizes, dtype, generator, self.job.device)


def attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    """Gate a kernel in float32 and in its own dtype, then time it and gate what it gave last."""
    point = job.case.workload
    assert isinstance(point, KernelPoint), f"{job.case.title} is no kernel's case"
    torch.set_num_threads(job.case.threads)
    spec = registry.kernel(point.kernel)
    used, call = implementation(spec, job.case.backend)
    notes.implementations = {point.kernel: used}
    notes.telemetry["gates_off"] = [
        name for name, on in job.gate.model_dump().items() if on is False
    ]
    kernel = _Kernel(job, point, spec, call)
    dtype = getattr(torch, job.case.dtype)
    with torch.inference_mode():
        if job.gate.numeric:
            # In float32 rounding hides nothing, whatever dtype is timed.
            for number, each in enumerate(dict.fromkeys((torch.float32, dtype))):
                suffix = "" if each == dtype else "_float32"
                inputs = kernel.inputs(number, each)
                with poisoned():
                    output = call(*inputs)
                notes.gates += _gate(kernel, inputs, output, suffix)
        if timed and not notes.failed:
            _measure(kernel, dtype, notes)


def _gate(kernel: _Kernel, inputs: Any, output: Tensor, suffix: str) -> list[GateResult]:
    reference = load(kernel.spec.reference)
    # The references run in ordinary memory: the device's room is the case's.
    plain = [value.cpu() if isinstance(value, Tensor) else value for value in inputs]
    exact, trusted = reference(*map(_widened, plain)), reference(*plain)
    return check_numeric(output.cpu(), trusted, exact, trusted.dtype, name=f"numeric{suffix}")


def _widened(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if floating else value


def _measure(kernel: _Kernel, dtype: torch.dtype, notes: Notes) -> None:
    """Time calls on sets of inputs that take turns, so that none finds its operands in a cache."""
    job = kernel.job
    one = kernel_cost(kernel.point, job.case.dtype)
    cache = job.ceilings.cache_bytes if job.ceilings is not None else None
    wanted = min(2 * (cache or KERNEL_INPUT_BYTES), KERNEL_INPUT_BYTES)
    sets = [
        kernel.inputs(10 + number, dtype)
        for number in range(max(2, min(64, round(wanted / one.bytes))))
    ]
    clock = for_device(job.device, job.clock)
    calls = _warm_up(kernel.call, sets, clock)
    watch = for_watch(job.device)
    before = telemetry.mark()
    watch.start()
    times, stopped, turn = _sample(kernel, sets, clock, calls)
    seen = watch.stop()
    notes.telemetry["timed"] = telemetry.since(before, job.case.threads)
    disturbed = watched.note(notes, job, seen)
    notes.telemetry["input_sets"] = len(sets)
    typical = median(times)
    notes.telemetry["sampling"] = {
        "samples": len(times),
        "calls_a_sample": calls,
        "stopped": stopped,
        "precision": None if typical.precision is None else round(typical.precision, 5),
        "precision_wanted": job.measure.precision,
    }
    if job.gate.numeric:
        last = sets[(turn - 1) % len(sets)]
        notes.gates += _gate(kernel, last, kernel.call(*last), "_after")
    limits, floor = job.datasheet or job.ceilings, None
    if limits is not None and job.gate.plausibility:
        least = kernel_floor_seconds(one, job.case.dtype, limits)
        notes.gates.append(
            check_floor("plausible_kernel", typical.value, least, limits.headroom, "a call")
        )
    if job.ceilings is not None:
        floor = kernel_floor_seconds(one, job.case.dtype, job.ceilings)
        if floor * 1e9 > typical.value:
            notes.telemetry["faster_than_calibrated"] = [
                f"a call: {floor * 1e9 / typical.value:.2f} times faster than calibrated"
            ]
    notes.metrics = _metrics(typical, len(times), one.flops, one.bytes, floor)
    notes.samples = [
        SampleSet(metric="kernel_time", unit="ns", values=[round(each) for each in times])
    ]
    if disturbed and job.measure.contended == "invalid" and not notes.failed:
        raise ContendedError(disturbed)


def _warm_up(call: Callable[..., Tensor], sets: list[Any], clock: Clock) -> int:
    """Call for a while; how many calls make one sample."""
    best, turn, begun = float("inf"), 0, time.monotonic()
    while turn < 3 or time.monotonic() - begun < _WARM_UP_SECONDS:
        start = clock.stamp()
        call(*sets[turn % len(sets)])
        best = min(best, max(1, clock.stamp() - start))
        turn += 1
    return max(1, round(_SAMPLE_NS / best))


def _sample(
    kernel: _Kernel, sets: list[Any], clock: Clock, calls: int
) -> tuple[list[float], str, int]:
    """Times of a call in ns, why no more were taken, and how many calls were made in all."""
    settings = kernel.job.measure
    times: list[float] = []
    turn, begun = 0, time.monotonic()
    while True:
        start = clock.stamp()
        for _ in range(calls):
            kernel.call(*sets[turn % len(sets)])
            turn += 1
        times.append((clock.stamp() - start) / calls)
        # Sorting anew for every sample would cost more than the samples.
        if len(times) >= settings.min_samples and len(times) % 10 == 0:
            precision = median(times).precision
            if precision is not None and precision <= settings.precision:
                return times, "precision", turn
        if time.monotonic() - begun > settings.max_seconds:
            return times, "time", turn


def _metrics(
    typical: Median, n: int, flops: float, moved_bytes: float, floor: float | None
) -> list[MetricValue]:
    seconds = typical.value / 1e9
    low, high = typical.low, typical.high
    found = [
        MetricValue(name="kernel_time", value=typical.value, n=n, ci_low=low, ci_high=high),
        MetricValue(name="achieved_flops", value=flops / seconds, n=n),
        MetricValue(name="achieved_bandwidth", value=moved_bytes / seconds, n=n),
        MetricValue(name="intensity", value=flops / moved_bytes, n=1),
    ]
    if floor is None:
        reason = "the device's ceilings are not known"
        return [*found, MetricValue(name="roofline_fraction", value=None, null_reason=reason)]
    return [*found, MetricValue(name="roofline_fraction", value=floor / seconds, n=n)]
