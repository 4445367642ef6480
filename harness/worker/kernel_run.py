"""A run of one kernel by itself: gates at its own shape, timing, gates again, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness import registry
from harness.cost import Cost
from harness.gates.plausibility import check_floor
from harness.gates.poison import poisoned
from harness.gates.tolerance import check_numeric
from harness.gates.verdict import failed
from harness.hardware.estimate import KERNEL_INPUT_BYTES, kernel_cost, kernel_floor_seconds
from harness.kernel import KernelSpec, implementation, outputs
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
_UNKNOWN = "the device's ceilings are not known"
# Inputs that are timed are numbered from here.
_TIMED = 10


@dataclass(frozen=True)
class _Kernel:
    """A kernel at one shape, and where it runs."""

    job: Job
    point: KernelPoint
    spec: KernelSpec
    call: Callable[..., Any]

    def inputs(self, number: int, dtype: torch.dtype, device: str | None = None) -> Any:
        """Inputs number so and so of this run: no two of a case alike, nights alike."""
        generator = torch.Generator().manual_seed(self.job.round * 1000 + number)
        where = self.job.device if device is None else device
        return load(self.spec.inputs)(self.point.sizes, dtype, generator, where)


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
                    returned = call(*inputs)
                notes.gates += _gate(kernel, number, each, returned, suffix)
        if timed and not notes.failed:
            _measure(kernel, dtype, notes)


def _gate(
    kernel: _Kernel, number: int, dtype: torch.dtype, returned: Any, suffix: str
) -> list[GateResult]:
    """Every output of a call held to the reference's, on the same inputs drawn anew.

    The call may have written to its own, where it should or where it should not.
    """
    reference = load(kernel.spec.reference)
    # The references run in ordinary memory: the device's room is the case's.
    plain = kernel.inputs(number, dtype, "cpu")
    exact = outputs(reference(*map(_widened, plain)))
    trusted = outputs(reference(*plain))
    given = outputs(returned)
    if len(given) != len(exact):
        told = f"{len(given)} outputs, the reference has {len(exact)}"
        return [failed(f"numeric{suffix}", "", told)]
    found = []
    for i, (output, low, high) in enumerate(zip(given, trusted, exact, strict=True)):
        name = f"numeric{suffix}" if i == 0 else f"numeric_output{i}{suffix}"
        found += check_numeric(output.cpu(), low, high, low.dtype, name=name)
    return found


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
        kernel.inputs(_TIMED + number, dtype)
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
        last = (turn - 1) % len(sets)
        notes.gates += _gate(kernel, _TIMED + last, dtype, kernel.call(*sets[last]), "_after")
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
    notes.metrics = _metrics(typical, len(times), one, floor)
    notes.metrics += _fractions(notes.metrics, job)
    notes.samples = [
        SampleSet(metric="kernel_time", unit="ns", values=[round(each) for each in times])
    ]
    if disturbed and job.measure.contended == "invalid" and not notes.failed:
        raise ContendedError(disturbed)


def _warm_up(call: Callable[..., Any], sets: list[Any], clock: Clock) -> int:
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


def _metrics(typical: Median, n: int, one: Cost, floor: float | None) -> list[MetricValue]:
    seconds = typical.value / 1e9
    low, high = typical.low, typical.high
    found = [
        MetricValue(name="kernel_time", value=typical.value, n=n, ci_low=low, ci_high=high),
        MetricValue(name="achieved_flops", value=one.flops / seconds, n=n),
        MetricValue(name="achieved_bandwidth", value=one.bytes / seconds, n=n),
        MetricValue(name="intensity", value=one.intensity, n=1),
    ]
    if floor is None:
        return [*found, MetricValue(name="roofline_fraction", value=None, null_reason=_UNKNOWN)]
    return [*found, MetricValue(name="roofline_fraction", value=floor / seconds, n=n)]


def _fractions(found: list[MetricValue], job: Job) -> list[MetricValue]:
    """The rates as shares of what this device was measured to copy, and to multiply."""
    rates = {metric.name: metric for metric in found}
    ceilings: dict[str, float | None] = {"achieved_bandwidth": None, "achieved_flops": None}
    if job.ceilings is not None:
        ceilings["achieved_bandwidth"] = job.ceilings.bandwidth_bytes_per_s
        ceilings["achieved_flops"] = job.ceilings.flops_per_s.get(job.case.dtype)
    shares = []
    for rate, share in (
        ("achieved_bandwidth", "bandwidth_fraction"), ("achieved_flops", "matrix_fraction")
    ):  # fmt: skip
        ceiling, value = ceilings[rate], rates[rate].value
        if ceiling is None or value is None:
            shares.append(MetricValue(name=share, value=None, null_reason=_UNKNOWN))
        else:
            shares.append(MetricValue(name=share, value=value / ceiling, n=rates[rate].n))
    return shares
