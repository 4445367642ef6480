"""Predictions as runs: what a sweep stores beside its measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from harness.errors import UsageError
from harness.hardware.estimate import kernel_cost, kernel_queries, kernel_width
from harness.predict.forward import BOUNDS, forward
from harness.predict.products import Array
from harness.predict.target import Target
from harness.predict.workload import Z95, Prediction, generate
from harness.run import MetricValue, RunRecord, Status
from harness.shape import DTYPE_BYTES
from harness.stack import techniques
from harness.suite import Planned
from harness.suite.case import Case
from harness.suite.points import GeneratePoint, KernelPoint

_TIMES = ("ttft", "tpot", "itl_p50", "step_gap", "e2e", "kernel_time")
_RATES = (
    "throughput", "prefill_throughput", "decode_throughput", "achieved_bandwidth",
    "achieved_flops", "roofline_fraction",
)  # fmt: skip


def record(planned: Planned, target: Target, order_slot: int, at: datetime) -> RunRecord:
    """The run that a prediction is stored as: status "predicted", or why there is none.

    Args:
        planned: a case with its plan; a kernel's has none.
        target: the device.
        order_slot: place of the case in its sweep.
        at: when the sweep was started, so that the same prediction is the same row.
    """
    case = planned.case
    status: Status = "predicted"
    reason = planned.unsupported
    metrics: list[MetricValue] = []
    binds: dict[str, str] = {}
    try:
        if reason is None and isinstance(case.workload, KernelPoint):
            metrics, binds = _kernel(case, case.workload, target)
        elif planned.plan is not None and isinstance(case.workload, GeneratePoint):
            point = case.workload
            found = generate(
                planned.plan,
                techniques(case.composed),
                point.batch,
                point.prompt_tokens,
                point.new_tokens,
                target,
            )
            metrics, binds = list(_metrics(found)), _binds(found)
            if not found.fits:
                status, metrics = "oom_predicted", []
                reason = _too_large(found)
        elif reason is None:
            reason = f"a {case.workload.kind} workload is only measured"
    except UsageError as error:
        reason = str(error)
    if reason is not None and status == "predicted":
        status = "unsupported"
    return RunRecord(
        case_hash=case.hash,
        status=status,
        reason=reason,
        round=0,
        order_slot=order_slot,
        started_at=at,
        seconds=0.0,
        telemetry={"hardware": target.name, "binds": binds},
        metrics=metrics,
    )


def _too_large(found: Prediction) -> str:
    need, have = float(found.peak_bytes) / 1e9, found.target.memory_bytes / 1e9
    return f"needs about {need:.1f} GB of memory, and {found.target.name} has {have:.0f} GB"


def _binds(found: Prediction) -> dict[str, str]:
    phases = {"prefill": found.prefill, "decode": found.decode}
    return {name: BOUNDS[int(phase.binds)] for name, phase in phases.items()}


def _metrics(found: Prediction) -> Iterator[MetricValue]:
    """The registry's metrics that a prediction has, in stored units."""
    many = not math.isnan(float(found.tpot))
    step = found.tpot if many else None
    one = "one new token has no time between tokens"
    work, seconds = found.work, float(found.tpot)
    numbers: dict[str, tuple[Array | float | None, str]] = {
        "ttft": (found.ttft * 1e9, ""),
        "tpot": (step * 1e9 if step is not None else None, one),
        "step_gap": (step * 1e9 if step is not None else None, one),
        "e2e": (found.e2e * 1e9, ""),
        "throughput": (found.throughput, ""),
        "prefill_throughput": (found.prefill_throughput, ""),
        "decode_throughput": (found.decode_throughput if many else None, one),
        "peak_bytes": (found.peak_bytes, ""),
        "state_bytes": (found.state_bytes, ""),
        "weights_bytes": (found.weights_bytes, ""),
        "achieved_bandwidth": (work.bytes / seconds if many else None, one),
        "achieved_flops": (work.flops / seconds if many else None, one),
        "intensity": (work.intensity, ""),
        "roofline_fraction": (float(found.memory_floor_seconds) / seconds if many else None, one),
        "energy_per_token": (None, _energy(found)),
    }
    for name, (value, reason) in numbers.items():
        yield _value(name, None if value is None else float(value), reason, found.factor)


def _energy(found: Prediction) -> str:
    joules = found.joules_per_token
    if joules is None:
        return "the device's power is not known"
    return f"at most {float(joules):.3g} J a token, at the device's power limit"


def _kernel(
    case: Case, point: KernelPoint, target: Target
) -> tuple[list[MetricValue], dict[str, str]]:
    work, rates = kernel_cost(point, case.dtype), target.rates_in(case.dtype)
    found = forward(
        work,
        rates,
        DTYPE_BYTES[case.dtype],
        queries=kernel_queries(point),
        width=kernel_width(point),
    )
    seconds = float(found.seconds)
    factor = math.exp(Z95 * rates.efficiency.spread)
    floor = max(work.flops / rates.flops_per_s, work.bytes / rates.bandwidth)
    numbers = {
        "kernel_time": seconds * 1e9,
        "achieved_flops": work.flops / seconds,
        "achieved_bandwidth": work.bytes / seconds,
        "intensity": work.intensity,
        "roofline_fraction": floor / seconds,
    }
    metrics = [_value(name, value, "", factor) for name, value in numbers.items()]
    return metrics, {"call": BOUNDS[int(found.binds)]}


def _value(name: str, value: float | None, reason: str, factor: float) -> MetricValue:
    """A metric with the bounds of 95 % where it depends on a time."""
    if value is None:
        return MetricValue(name=name, value=None, null_reason=reason)
    if name not in (*_TIMES, *_RATES):
        return MetricValue(name=name, value=value)
    return MetricValue(name=name, value=value, ci_low=value / factor, ci_high=value * factor)
