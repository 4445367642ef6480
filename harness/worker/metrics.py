"""The metrics of a run, put together from traces, memory and the cost functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from harness.gates.plausibility import check_floor
from harness.hardware.ceilings import Ceilings
from harness.hardware.estimate import floor_seconds, step_cost
from harness.measure.goodput import goodput
from harness.measure.interval import median
from harness.measure.latency import metrics as time_metrics
from harness.measure.latency import step_gaps, timings
from harness.measure.memory import Peak
from harness.measure.sampling import Sampled
from harness.measure.sensed import Energy
from harness.plan import Trait
from harness.run import GateResult, MetricValue, SampleSet
from harness.shape import BatchShape
from harness.worker.notes import Notes
from harness.worker.setup import Ground


def collect(
    ground: Ground,
    sampled: Sampled,
    peak: Peak,
    held: Any,
    agreement: float | None,
    energy: Energy,
) -> tuple[list[MetricValue], list[SampleSet]]:
    """Every metric of the registry, and the raw samples behind the times.

    Args:
        held: the engine's Memory after the last repetition.
        agreement: share of judged tokens that were the reference's own choice.
        energy: of the measured window.
    """
    times = time_metrics(sampled.traces, ground.plan.limits.lookahead)
    gap = next(m for m in times if m.name == "step_gap")
    metrics = [
        *times,
        goodput(sampled.traces, ground.job.slo, ground.plan.limits.lookahead),
        _value("peak_bytes", peak.bytes, peak.reason),
        _value("state_bytes", held.state_bytes),
        _value("reserved_bytes", held.reserved_bytes),
        _value("weights_bytes", held.weights_bytes),
        *_achieved(ground, gap),
        _energy_per_token(sampled, energy),
        _value("token_agreement", agreement, "the exactness gate is off"),
    ]
    found = [timing for trace in sampled.traces for timing in timings(trace)]
    # Gaps that are no steps' are no samples of steps either.
    known = sampled.traces if gap.value is not None else ()
    gaps = [gap for trace in known for gap in step_gaps(trace)]
    samples = [
        SampleSet(metric="step_gap", unit="ns", values=gaps),
        SampleSet(metric="ttft", unit="ns", values=[t.ttft_ns for t in found]),
        SampleSet(metric="e2e", unit="ns", values=[t.e2e_ns for t in found]),
    ]
    return metrics, [s for s in samples if s.values]


def plausible(ground: Ground, sampled: Sampled, notes: Notes) -> list[GateResult]:
    """Hold the median step, the time until every request has a token, and the whole, to floors.

    The datasheet's limits decide where there is one; what was calibrated then only warns. Without a
    datasheet the calibrated limits decide, with their headroom.
    """
    job = ground.job
    limits = job.datasheet or job.ceilings
    if limits is None:
        notes.telemetry["plausibility"] = "not checked: this job carries no ceilings"
        return []
    notes.telemetry["plausibility"] = f"limits: {limits.source}, times {limits.headroom:g}"
    if job.ceilings is not None:
        beaten = [
            f"{detail}: {floor * 1e9 / ns:.2f} times faster than calibrated"
            for _, ns, floor, detail in _floors(ground, sampled, job.ceilings)
            if floor * 1e9 > ns
        ]
        if beaten:
            notes.telemetry["faster_than_calibrated"] = beaten
    return [
        check_floor(name, ns, floor, limits.headroom, detail)
        for name, ns, floor, detail in _floors(ground, sampled, limits)
    ]


def _floors(
    ground: Ground, sampled: Sampled, limits: Ceilings
) -> Iterator[tuple[str, float, float, str]]:
    """Name, median ns, floor in seconds and words of each time that has a floor.

    The whole cannot be flattered by holding tokens back, as the times of its parts can.
    """
    point, stack = ground.point, ground.job.case.composed
    firsts = [max(t.ttft_ns for t in timings(trace)) for trace in sampled.traces]
    prefill = BatchShape(point.batch, point.prompt_tokens, 0)
    floor = floor_seconds(ground.plan, prefill, limits, stack)
    yield "plausible_ttft", median(firsts).value, floor, "prefill of the batch"
    # The cheapest decode step is the first one: nothing after it can be faster.
    step = _decode_step(ground, point.prompt_tokens)
    step_floor = floor_seconds(ground.plan, step, limits, stack)
    gaps = [gap for trace in sampled.traces for gap in step_gaps(trace)]
    if gaps:
        yield "plausible_step", median(gaps).value, step_floor, "decode step"
    if Trait.CHUNKS in ground.plan.traits:
        # Some requests may have decoded in the steps that fed the others' prompts.
        alone = BatchShape(1, 1, point.prompt_tokens)
        step_floor = floor_seconds(ground.plan, alone, limits, stack)
    wholes = [max(t.e2e_ns for t in timings(trace)) for trace in sampled.traces]
    # The first token comes with the prompt.
    steps = math.ceil(point.new_tokens / (1 + ground.plan.limits.lookahead)) - 1
    words = f"prefill of the batch and {steps} decode steps"
    yield "plausible_e2e", median(wholes).value, floor + steps * step_floor, words


def _achieved(ground: Ground, gap: MetricValue) -> list[MetricValue]:
    """Bytes and FLOPs of a decode step half-way through, over the median step's time."""
    point, ceilings = ground.point, ground.job.ceilings
    names = ("achieved_bandwidth", "achieved_flops", "intensity", "roofline_fraction")
    if gap.value is None:
        return [_value(name, None, gap.null_reason) for name in names]
    step = _decode_step(ground, point.prompt_tokens + point.new_tokens // 2)
    stack = ground.job.case.composed
    work = step_cost(ground.plan, stack, step)
    seconds = gap.value / 1e9
    share = None
    if ceilings is not None:
        share = floor_seconds(ground.plan, step, ceilings, stack) / seconds
    return [
        _value("achieved_bandwidth", work.bytes / seconds),
        _value("achieved_flops", work.flops / seconds),
        _value("intensity", work.intensity),
        _value("roofline_fraction", share, "the device's ceilings are not known"),
    ]


def _energy_per_token(sampled: Sampled, energy: Energy) -> MetricValue:
    tokens = sum(step.tokens for trace in sampled.traces for step in trace.steps)
    if energy.joules is None or not tokens:
        return _value("energy_per_token", None, energy.reason or "no token was emitted")
    return _value("energy_per_token", energy.joules / tokens)


def _decode_step(ground: Ground, context: int) -> BatchShape:
    return BatchShape(ground.point.batch, 1, context)


def _value(name: str, value: float | None, reason: str | None = None) -> MetricValue:
    if value is None:
        return MetricValue(name=name, value=None, null_reason=reason)
    return MetricValue(name=name, value=float(value), n=1)
