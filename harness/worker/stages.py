"""The stages of a run: gates, warm-up, timing, gates again, metrics. The order is the point.

Correct first and stop; then timed; then judged once more on what was timed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from harness.gates import ambient
from harness.gates.ambient import check_ambient, check_cpu_time
from harness.gates.judgement import check_timed, check_watched
from harness.gates.observe import TOKEN_BUDGET, LogitsLog, choose
from harness.gates.poison import poisoned
from harness.gates.state import check_state_bytes, expected_bytes
from harness.measure import memory, telemetry
from harness.measure.clock import Clock, for_device
from harness.measure.generate import drive
from harness.measure.prompts import PromptMaker, Prompts
from harness.measure.sampling import MOST_WARM_UPS, Sampled, WarmUp, sample, warm_up
from harness.measure.sensed import per_window
from harness.measure.trace import ContendedError, Trace
from harness.measure.watch import for_device as for_watch
from harness.model.layout import layout
from harness.plan import Trait
from harness.suite.points import GeneratePoint
from harness.worker import watched
from harness.worker.job import Job
from harness.worker.metrics import collect, plausible
from harness.worker.notes import Notes
from harness.worker.setup import Ground, ground, prepare, prompt_maker

# Largest shape of the float32 gate: prefill, decode and a batch, as long as the references may run.
# Faults of long sequences (a block's edge, an index that overflows) do not show in short ones.
_SMALL = GeneratePoint(batch=2, prompt_tokens=TOKEN_BUDGET - 12, new_tokens=12)


@dataclass
class Ready:
    """An engine that passed its gates, and what the later stages need."""

    ground: Ground
    engine: Any
    prompts: PromptMaker
    clock: Clock
    peak: memory.CpuPeak | memory.CudaPeak
    first: Trace
    ambient: ambient.State  # before any engine was built
    last_prompts: Prompts = field(default=())

    def repeat(self) -> Trace | None:
        """One repetition with prompts that nobody has seen; None when there are none left."""
        point = self.ground.point
        if self.prompts.left < point.batch:
            return None
        self.last_prompts = self.prompts.batch(point.batch)
        return drive(self.engine, self.last_prompts, point.new_tokens, self.clock)


def attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    """Run a `generate` case: its gates, and when they pass and it is `timed`, its times."""
    ready = check_before(job, notes)
    if timed and not notes.failed:
        measure(ready, notes)


def check_before(job: Job, notes: Notes) -> Ready:
    """Build the engine and hold one repetition at the case's own shape to every gate.

    Besides the timed dtype, float32 is checked first, on a batch of two: there rounding hides
    nothing. Both engines are built the same way; the float32 one is gone before the other is made.
    """
    started = time.monotonic()
    base = prepare(job)
    notes.gates += base.gates
    settings = job.gate
    notes.telemetry["gates_off"] = [
        name for name, on in settings.model_dump().items() if on is False
    ]
    clock = for_device(job.device, job.clock)
    settled = ambient.state()
    if job.case.dtype != "float32" and settings.numeric:
        small = _in_float32(base)
        _watch(small, prompt_maker(small), notes, clock, settled, "_float32")
    prompts = prompt_maker(base)
    peak = memory.watch(job.device)
    engine, trace = _watch(base, prompts, notes, clock, settled, "")
    ready = Ready(base, engine, prompts, clock, peak, trace, settled)
    notes.telemetry["gate_before_seconds"] = round(time.monotonic() - started, 3)
    return ready


def measure(ready: Ready, notes: Notes) -> None:
    """Warm up, time, judge what was timed, and put the metrics together."""
    job = ready.ground.job
    ready.engine.observer = None
    warmed = warm_up(ready.repeat, job.measure)
    compiled = _compiled(ready, warmed)
    notes.compile_seconds = compiled
    # One batch was watched, and not all processes warm up for equally long.
    ready.prompts.skip_to((1 + MOST_WARM_UPS) * ready.ground.point.batch)
    ready.peak.restart()
    watch = for_watch(job.device)
    before = telemetry.mark()
    watch.start()
    sampled = sample(watch.after(ready.repeat), job.measure)
    seen = watch.stop()
    notes.telemetry["timed"] = telemetry.since(before, job.case.threads)
    disturbed = watched.note(notes, job, seen)
    notes.telemetry["warm_up"] = {
        "repetitions": warmed.repetitions,
        "stable": warmed.stable,
        "seconds": round(warmed.seconds, 3),
        "compile": "nothing is compiled in this run"
        if compiled is None
        else "the gated repetition beyond the shortest warm-up, its watching included",
    }
    notes.telemetry["sampling"] = _said(sampled, job)
    if job.case.cuda_graph:
        notes.telemetry["graphs"] = ready.engine.runner.graphs.counters()
    peak = ready.peak.read()
    bytes_held = ready.engine.memory()

    point = ready.ground.point
    chosen = _chosen(job, point, "after")
    changed = check_ambient(ready.ambient, ambient.state(), name="ambient_after")
    with ambient.restored(ready.ambient):
        judgement = check_timed(
            ready.ground.bench,
            job.gate,
            ready.last_prompts,
            sampled.traces,
            point.new_tokens,
            chosen,
        )
    notes.gates += [*judgement.gates, changed]
    if job.device == "cpu":
        timed = notes.telemetry["timed"]
        notes.gates.append(
            check_cpu_time(timed["cpu_seconds"], timed["wall_seconds"], job.case.threads)
        )
    if job.gate.plausibility:
        notes.gates += plausible(ready.ground, sampled, notes)
    notes.metrics, notes.samples = collect(
        ready.ground,
        sampled,
        peak,
        bytes_held,
        judgement.agreement,
        per_window(seen, disturbed),
    )
    # A result that is wrong stays wrong on a quiet machine: gates decide first.
    if disturbed and job.measure.contended == "invalid" and not notes.failed:
        raise ContendedError(disturbed)


def _watch(
    base: Ground,
    maker: PromptMaker,
    notes: Notes,
    clock: Clock,
    settled: ambient.State,
    suffix: str,
) -> tuple[Any, Trace]:
    """Build an engine, watch one repetition of it, and judge that."""
    job, point = base.job, base.point
    engine = base.engine()
    notes.implementations = dict(engine.implementations)
    notes.telemetry["prompts"] = maker.kind
    prompts = maker.batch(point.batch)
    chosen = _chosen(job, point, "before")
    log = LogitsLog(chosen)
    engine.observer = log
    with poisoned():
        trace = drive(engine, prompts, point.new_tokens, clock)
    base.forget_captured(engine)
    engine.observer = None
    changed = check_ambient(settled, ambient.state(), name=f"ambient{suffix}")
    with ambient.restored(settled):
        judgement = check_watched(
            base.bench, job.gate, prompts, trace, point.new_tokens, chosen, log, suffix
        )
    notes.gates += [*judgement.gates, changed]
    notes.telemetry["gates_left_out"] = list(judgement.left_out)
    notes.telemetry["prompt_tokens"] = sorted({s.prompt_tokens for s in trace.submissions})
    if not suffix:
        tokens, sequences, _ = layout(base.plan.shape)
        expected = expected_bytes(
            tokens,
            sequences,
            point,
            base.plan.dtype,
            incremental=Trait.INCREMENTAL in base.plan.traits,
        )
        notes.gates.append(check_state_bytes(engine.memory().state_bytes, expected))
    return engine, trace


def _in_float32(base: Ground) -> Ground:
    point = base.point
    small = GeneratePoint(
        batch=min(point.batch, _SMALL.batch),
        prompt_tokens=min(point.prompt_tokens, _SMALL.prompt_tokens),
        new_tokens=min(point.new_tokens, _SMALL.new_tokens),
    )
    return ground(base.job, base.source, "float32", small)


def _chosen(job: Job, point: GeneratePoint, when: str) -> list[int]:
    tokens = point.prompt_tokens + point.new_tokens
    return choose(point.batch, tokens, f"{point.title}/{job.round}/{when}")


def _compiled(ready: Ready, warmed: WarmUp) -> float | None:
    """What the first repetition of the process cost beyond a steady one, in seconds.

    None where nothing is compiled: PyTorch's eager operations come compiled. The first repetition
    is the gated one, so the figure is an upper bound.
    """
    if "triton" not in ready.engine.implementations.values() or warmed.shortest_ns is None:
        return None
    return max(0, ready.first.duration_ns - warmed.shortest_ns) / 1e9


def _said(sampled: Sampled, job: Job) -> dict[str, Any]:
    """Both what was reached and what stopped the sampling."""
    precision = sampled.typical.precision
    return {
        "repetitions": len(sampled.traces),
        "seconds": round(sampled.seconds, 3),
        "stopped": sampled.stopped,
        "precision": None if precision is None else round(precision, 5),
        "precision_wanted": job.measure.precision,
    }
