"""The timing of a kernel's run: samples in turns with its peers, floors, rates and ratios."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from harness.cost import Cost
from harness.gates.plausibility import check_floor
from harness.hardware.estimate import KERNEL_INPUT_BYTES, kernel_cost, kernel_floor_seconds
from harness.measure import telemetry
from harness.measure.calls import Calls, in_turns, maker
from harness.measure.clock import for_device
from harness.measure.interval import Median, median
from harness.measure.trace import ContendedError
from harness.measure.watch import for_device as for_watch
from harness.run import MetricValue, SampleSet
from harness.suite.case import MeasureSettings
from harness.worker import kernel_peers, watched
from harness.worker.job import Job
from harness.worker.kernel_gate import Kernel, Right
from harness.worker.notes import Notes

_UNKNOWN = "the device's ceilings are not known"
# Inputs that are timed are numbered from here.
_TIMED = 10


def measure(kernel: Kernel, dtype: torch.dtype, right: Right | None, notes: Notes) -> None:
    """Time calls on sets of inputs that take turns, then gate what the last one gave.

    Args:
        right: of the inputs that were gated in this dtype, for the peers; None: gates are off.
    """
    job = kernel.job
    one = kernel_cost(kernel.point, job.case.dtype)
    cache = job.ceilings.cache_bytes if job.ceilings is not None else None
    wanted = min(2 * (cache or KERNEL_INPUT_BYTES), KERNEL_INPUT_BYTES)
    sets = [
        kernel.inputs(_TIMED + number, dtype)
        for number in range(max(2, min(64, round(wanted / one.bytes))))
    ]
    make = maker(job.device, for_device(job.device, job.clock))
    own = make([partial(kernel.call, *inputs) for inputs in sets])
    beside, reasons = _beside(kernel, dtype, right, sets, make)
    watch = for_watch(job.device)
    before = telemetry.mark()
    watch.start()
    times, stopped = _sample([own, *beside.values()], job.measure)
    seen = watch.stop()
    notes.telemetry["timed"] = telemetry.since(before, job.case.threads)
    disturbed = watched.note(notes, job, seen)
    notes.telemetry["input_sets"] = len(sets)
    typical = median(times[0])
    notes.telemetry["sampling"] = {
        "samples": len(times[0]),
        "calls_a_sample": own.count,
        "how": own.how,
        "stopped": stopped,
        "precision": None if typical.precision is None else round(typical.precision, 5),
        "precision_wanted": job.measure.precision,
    }
    if beside:
        notes.telemetry["peers"] = {name: each.how for name, each in beside.items()}
    if job.gate.numeric:
        last = own.again()
        notes.gates += kernel.right(_TIMED + own.last, dtype).judge(last, "_after")
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
    notes.metrics = _metrics(typical, len(times[0]), one, floor)
    notes.metrics += _fractions(notes.metrics, job)
    notes.metrics += ratios(times[0], dict(zip(beside, times[1:], strict=True)), reasons)
    notes.samples = [
        SampleSet(metric="kernel_time", unit="ns", values=[round(each) for each in times[0]])
    ]
    if disturbed and job.measure.contended == "invalid" and not notes.failed:
        raise ContendedError(disturbed)


def _beside(
    kernel: Kernel, dtype: torch.dtype, right: Right | None, sets: Sequence[Any], make: Any
) -> tuple[dict[str, Calls], dict[str, str]]:
    """The case's peers ready to be sampled, and why the others are not."""
    if not kernel.point.peers:
        return {}, {}
    # Number 1 was gated in this dtype, or 0 where that is float32.
    gated = 0 if dtype == torch.float32 else 1
    calls, reasons = kernel_peers.ready(
        kernel.spec, kernel.point.peers, partial(kernel.inputs, gated, dtype), sets,
        None if right is None else right.judge,
    )  # fmt: skip
    return {name: make(each) for name, each in calls.items()}, reasons


def _sample(sampled: Sequence[Calls], settings: MeasureSettings) -> tuple[list[list[float]], str]:
    """Times of a call in ns of each, round by round, and why no more rounds were taken."""
    times: list[list[float]] = [[] for _ in sampled]
    begun = time.monotonic()
    while True:
        for own, value in zip(times, in_turns(sampled, len(times[0])), strict=True):
            own.append(value)
        # Sorting anew for every sample would cost more than the samples.
        if len(times[0]) >= settings.min_samples and len(times[0]) % 10 == 0:
            looked = [times[0], *(_quotients(times[0], other) for other in times[1:])]
            known = [median(each).precision for each in looked]
            if all(each is not None and each <= settings.precision for each in known):
                return times, "precision"
        if time.monotonic() - begun > settings.max_seconds:
            return times, "time"


def ratios(
    own: Sequence[float], others: Mapping[str, Sequence[float]], reasons: Mapping[str, str]
) -> list[MetricValue]:
    """How many times longer each peer takes, over pairs of samples taken side by side.

    Args:
        own: ns a call of the kernel, by round.
        others: of each peer in the same rounds.
        reasons: why the other peers have no ratio.
    """
    found = []
    for name, times in others.items():
        for metric, values in (
            (f"speedup_{name}", _quotients(own, times)), (f"peer_time_{name}", times)
        ):  # fmt: skip
            typical = median(values)
            low, high = typical.low, typical.high
            found.append(
                MetricValue(
                    name=metric, value=typical.value, n=len(values), ci_low=low, ci_high=high
                )
            )
    for name, reason in reasons.items():
        for metric in (f"speedup_{name}", f"peer_time_{name}"):
            found.append(MetricValue(name=metric, value=None, null_reason=reason))
    return found


def _quotients(own: Sequence[float], other: Sequence[float]) -> list[float]:
    """Of every two rounds, in which both went first once, the geometric mean of their quotients."""
    single = [theirs / ours for ours, theirs in zip(own, other, strict=True)]
    return [math.sqrt(a * b) for a, b in zip(single[::2], single[1::2], strict=False)]


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
