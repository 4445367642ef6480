"""A run of a serve case: gates on some requests, all of them by the clock, gates again."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from harness.gates import ambient
from harness.gates.ambient import check_ambient, check_cpu_time
from harness.gates.observe import LogitsLog
from harness.gates.plausibility import check_floor
from harness.gates.poison import poisoned
from harness.gates.served import check_served, choose_due
from harness.hardware.estimate import floor_seconds
from harness.measure import memory, serving, telemetry
from harness.measure.clock import Clock, for_device
from harness.measure.prompts import held_out_text
from harness.measure.sensed import per_window
from harness.measure.serve import Due, Served, serve
from harness.measure.serve_prompts import TEXT_TOKENS, Texts, requests
from harness.measure.trace import ContendedError
from harness.measure.watch import for_device as for_watch
from harness.run import GateResult, MetricValue
from harness.shape import BatchShape
from harness.suite.arrivals import Arrival, arrivals
from harness.suite.points import ServePoint
from harness.worker import watched
from harness.worker.job import Job
from harness.worker.notes import Notes
from harness.worker.setup import Ground, ground, prepare

# Requests of the gated run: enough to fill a batch and to wait for one.
_GATED = 12
# A later generator than this, as a share of the median time to first token, is told of.
_LATE_SHARE = 0.05


@dataclass
class _Workload:
    """The point's requests, and texts for them."""

    base: Ground
    point: ServePoint
    coming: tuple[Arrival, ...]

    def due(self, purpose: str, count: int | None = None) -> list[Due]:
        """The first so many requests, with texts that no other purpose gets."""
        source, vocab = self.base.source, self.base.plan.shape.vocab
        texts = Texts(vocab, held_out_text(source, TEXT_TOKENS), f"{self.point.seed}/{purpose}")
        return requests(self.point, self.coming[:count], texts, source.eos)

    def at_once(self, purpose: str, count: int) -> list[Due]:
        """The first so many, all due now and answered once, greedily."""
        plain = self.point.model_copy(update={"samples": 1})
        found = replace(self, point=plain).due(purpose, count)
        return [replace(each, at_ns=0) for each in found]


def attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    """Run a `serve` case: its gates, and when they pass and it is `timed`, all its requests."""
    started = time.monotonic()
    base = prepare(job)
    notes.gates += base.gates
    notes.telemetry["gates_off"] = [
        name for name, on in job.gate.model_dump().items() if on is False
    ]
    point = job.case.workload
    assert isinstance(point, ServePoint)
    workload = _Workload(base, point, arrivals(point))
    clock = for_device(job.device, job.clock)
    settled = ambient.state()
    if job.case.dtype != "float32" and job.gate.numeric:
        small = replace(workload, base=ground(job, base.source, "float32", point))
        _watch(small, notes, clock, settled, "_float32")
    peak = memory.watch(job.device)
    engine = _watch(workload, notes, clock, settled, "")
    notes.telemetry["gate_before_seconds"] = round(time.monotonic() - started, 3)
    if timed and not notes.failed:
        _measure(workload, engine, notes, clock, settled, peak)


def _watch(
    workload: _Workload, notes: Notes, clock: Clock, settled: ambient.State, suffix: str
) -> Any:
    """Build an engine, hand it some requests at once, watch it, and judge what came."""
    base, job = workload.base, workload.base.job
    engine = base.engine()
    notes.implementations = dict(engine.implementations)
    due = workload.at_once("gate", _GATED)
    chosen = choose_due(due, f"{workload.point.title}/{job.round}/before")
    log = LogitsLog([each.request.id for each in chosen])
    engine.observer = log
    with poisoned():
        served = serve(engine, due, clock)
    base.forget_captured(engine)
    engine.observer = None
    changed = check_ambient(settled, ambient.state(), name=f"ambient{suffix}")
    with ambient.restored(settled):
        judgement = check_served(base.bench, job.gate, served, chosen, suffix, log)
    notes.gates += [*judgement.gates, changed]
    notes.telemetry["gates_left_out"] = list(judgement.left_out)
    return engine


def _measure(
    workload: _Workload,
    engine: Any,
    notes: Notes,
    clock: Clock,
    settled: ambient.State,
    peak: memory.CpuPeak | memory.CudaPeak,
) -> None:
    """Warm up on other texts, serve by the clock, judge, and put the metrics together."""
    base, job, point = workload.base, workload.base.job, workload.point
    serve(engine, workload.at_once("warm-up", _GATED), clock)
    due = workload.due("timed")
    peak.restart()
    watch = for_watch(job.device)
    before = telemetry.mark()
    watch.start()
    served = serve(engine, due, clock, skip_idle=point.idle == "skip")
    seen = watch.stop()
    slept = (served.idle_ns - served.skipped_ns) / 1e9
    notes.telemetry["timed"] = telemetry.since(before, job.case.threads, slept)
    disturbed = watched.note(notes, job, seen)
    held, high = engine.memory(), peak.read()

    chosen = choose_due(due, f"{point.title}/{job.round}/after")
    changed = check_ambient(settled, ambient.state(), name="ambient_after")
    with ambient.restored(settled):
        judgement = check_served(base.bench, job.gate, served, chosen, "_after")
    notes.gates += [*judgement.gates, changed]
    notes.telemetry["gates_left_out"] += list(judgement.left_out)
    if job.device == "cpu":
        timed = notes.telemetry["timed"]
        notes.gates.append(
            check_cpu_time(timed["cpu_seconds"], timed["wall_seconds"], job.case.threads)
        )
    if job.gate.plausibility:
        notes.gates += _plausible(base, served)
    found = serving.metrics(served, point.slots, job.slo, base.plan.limits.lookahead)
    energy = per_window(seen, disturbed)
    tokens = sum(step.tokens for step in served.steps)
    notes.metrics = [
        *found,
        _value("peak_bytes", high.bytes, high.reason),
        _value("reserved_bytes", held.reserved_bytes),
        _value("weights_bytes", held.weights_bytes),
        _value(
            "energy_per_token",
            None if energy.joules is None else energy.joules / tokens,
            energy.reason or "no token was emitted",
        ),
        _value("token_agreement", judgement.agreement, "no greedy token was judged"),
    ]
    notes.samples = serving.samples(served)
    notes.telemetry["serve"] = _said(served)
    if disturbed and job.measure.contended == "invalid" and not notes.failed:
        raise ContendedError(disturbed)


def _plausible(base: Ground, served: Served) -> list[GateResult]:
    """Hold the steps together to the floor of the tokens that they emitted.

    Prompts are left out: what a prefix cache found of them nobody computed.
    """
    limits = base.job.datasheet or base.job.ceilings
    if limits is None:
        return []
    batches = Counter(min(step.tokens, base.plan.limits.slots) for step in served.steps)
    floor = sum(
        count * floor_seconds(base.plan, BatchShape(size, 1, 1), limits, base.bench.stack)
        for size, count in batches.items()
        if size
    )
    busy = sum(step.end_ns - step.start_ns for step in served.steps)
    words = f"{len(served.steps)} steps with the tokens they emitted"
    return [check_floor("plausible_steps", busy, floor, limits.headroom, words)]


def _said(served: Served) -> dict[str, Any]:
    """What a reader must know of the run beside its numbers."""
    found = serving.times(served)
    said: dict[str, Any] = {
        "seconds": round(served.duration_ns / 1e9, 3),
        "idle_seconds": round(served.idle_ns / 1e9, 3),
        "skipped_seconds": round(served.skipped_ns / 1e9, 3),
        "steps": len(served.steps),
        "requests": len(served.due),
        "ended_by_eos": sum(reason == "eos" for reason in served.finished.values()),
        "refused": [*served.refused.values()][:3],
    }
    if found:
        typical = sorted(each.ttft for each in found)[len(found) // 2]
        if max(served.late_ns) > _LATE_SHARE * typical:
            said["late"] = (
                f"the generator handed a request in {max(served.late_ns) / 1e6:.3g} ms later than "
                f"it could, beside a median first token after {typical / 1e6:.3g} ms"
            )
    return said


def _value(name: str, value: float | None, reason: str | None = None) -> MetricValue:
    if value is None:
        return MetricValue(name=name, value=None, null_reason=reason)
    return MetricValue(name=name, value=float(value), n=1)
