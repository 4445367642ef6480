"""A run of a quality case: gates, the task, and the gate once more on a text of the task itself.

Nothing is timed. What was computed before from the same inputs is told again (`quality.kept`).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import torch

from harness import stack as stacks
from harness.errors import UnfitError
from harness.gates.observe import TOKEN_BUDGET
from harness.gates.tolerance import check_numeric
from harness.model import source as models
from harness.model import weights
from harness.model.source import ModelSource
from harness.quality import kept, tasks
from harness.quality.forced import NoProbabilityError
from harness.quality.kept import Kept
from harness.quality.tasks import Judged, Side
from harness.run import GateResult
from harness.suite.case import StackSpec
from harness.suite.points import GeneratePoint, QualityPoint
from harness.worker.job import Job
from harness.worker.notes import Notes
from harness.worker.setup import WEIGHTS_SEED, Ground, ground
from harness.worker.stages import check_before
from harness.worker.support import UnsupportedError

# Of the repetition that is gated before: as a generate case's, on a batch of two.
_NEW_TOKENS = 8


def attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    """Run a `quality` case: its gates, and when they pass and it is `timed`, its task."""
    point = job.case.workload
    assert isinstance(point, QualityPoint)
    name = kept.key(job)
    if timed and (found := kept.find(name)) is not None:
        _tell(found, name, notes)
        return
    started = time.monotonic()
    ready = check_before(_generating(job, point), notes)
    if not timed or notes.failed:
        return
    base = ground(job, ready.ground.source, job.case.dtype, point)
    judged = Judged(point, _side(base), _baseline(base, point))
    try:
        metrics = tasks.run(judged)
    except (NoProbabilityError, UnfitError) as error:
        raise UnsupportedError(str(error)) from error
    notes.gates += _check_watched(base, judged, job.gate.numeric)
    notes.metrics = metrics
    notes.telemetry["quality"] = _said(base, judged)
    if notes.failed:
        return
    notes.telemetry["kept"] = kept.keep(
        name,
        Kept(
            computed_at=datetime.now(UTC),
            seconds=round(time.monotonic() - started, 3),
            metrics=tuple(notes.metrics),
            gates=tuple(notes.gates),
            implementations=notes.implementations,
            telemetry={key: notes.telemetry[key] for key in ("quality", "gates_off")},
        ),
    )


def _tell(found: Kept, name: str, notes: Notes) -> None:
    """The numbers of before, and that they are."""
    notes.metrics = list(found.metrics)
    notes.gates += found.gates
    notes.implementations = found.implementations
    notes.telemetry |= found.telemetry
    notes.telemetry["cached"] = {
        "computed_at": found.computed_at.isoformat(timespec="seconds"),
        "seconds": found.seconds,
        "file": f"results/quality/{name}.json",
    }


def _generating(job: Job, point: QualityPoint) -> Job:
    """The same job as a small `generate` case: what gates know how to judge."""
    new_tokens = min(_NEW_TOKENS, point.tokens - 1)
    small = GeneratePoint(
        batch=min(2, point.batch),
        prompt_tokens=max(1, min(point.tokens, TOKEN_BUDGET // 2) - new_tokens),
        new_tokens=new_tokens,
    )
    return job.model_copy(update={"case": job.case.model_copy(update={"workload": small})})


def _side(base: Ground) -> Side:
    """The stack on trial, with weights of its own."""
    job = base.job
    dtype = getattr(torch, base.plan.dtype)
    loaded = weights.load(base.source, base.plan.shape, dtype, job.device, WEIGHTS_SEED)
    return Side(base.source, base.plan, loaded, job.device)


def _baseline(base: Ground, point: QualityPoint) -> Side | None:
    """The baseline of a point: the model as it was trained, uncompressed. None where it is the
    stack itself, or the task needs none."""
    if point.task not in ("text", "greedy"):
        return None
    case, source = base.job.case, base.source
    if point.against is not None:
        source = _against(base, point)
    spec = stacks.completed(stacks.parse("dense"), source)
    plan = stacks.resolve(
        spec, source, dtype="float32", backend="torch", slots=point.slots,
        max_tokens=point.max_tokens,
    )  # fmt: skip
    if (
        source.checkpoint_hash == base.source.checkpoint_hash
        and plan.shape == base.plan.shape
        and _beside_architecture(spec) == _beside_architecture(case.composed)
        and case.dtype == "float32"
    ):
        return None
    loaded = weights.load(source, plan.shape, torch.float32, base.job.device, WEIGHTS_SEED)
    return Side(source, plan, loaded, base.job.device)


def _against(base: Ground, point: QualityPoint) -> ModelSource:
    assert point.against is not None
    source = models.find(point.against, ())
    if source.checkpoint_hash != point.against_hash:
        raise UnfitError(
            f"the checkpoint of {point.against} is not the one this case was planned with; plan "
            "the sweep again"
        )
    if source.shape.vocab != base.source.shape.vocab:
        raise UnfitError(
            f"{point.against} has a vocabulary of {source.shape.vocab} and {base.source.name} one "
            f"of {base.source.shape.vocab}: there is no divergence between them"
        )
    return source


def _check_watched(base: Ground, judged: Judged, wanted: bool) -> list[GateResult]:
    """Hold the logits of a text of the task to the reference's, where the stack promises them."""
    if not wanted or not base.bench.exact_logits:
        return []
    found = []
    for text, rows in judged.watched:
        # The reference's time grows with the text: its beginning is judged.
        count = max(1, min(len(rows), TOKEN_BUDGET - text.fed))
        decided = text.tokens[text.fed : text.fed + count]
        exact = base.bench.judge(text.tokens[: text.fed], decided)
        found += check_numeric(
            rows[:count].cpu(),
            exact.trusted.cpu(),
            exact.exact.cpu(),
            base.bench.dtype,
            name="numeric_text",
            own=exact.own,
        )
    return found


def _said(base: Ground, judged: Judged) -> dict[str, object]:
    """What the numbers are of and against, in words."""
    decoding = base.job.case.composed.decoding.technique
    said: dict[str, object] = {"texts": "held-out text" if base.source.tokenizer else "made up"}
    if base.source.training is not None:
        said["training"], said["seed"] = base.source.training
    if judged.baseline is not None:
        said["baseline"] = f"{judged.baseline.source.name}, dense, contiguous, float32"
    if decoding != "autoregressive" and judged.point.task != "greedy":
        said["decoding"] = f"{decoding} decides nothing here: the tokens are given"
    return said


def _beside_architecture(spec: StackSpec) -> StackSpec:
    return spec.model_copy(update={"label": "", "architecture": ()})
