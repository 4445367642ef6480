"""From a job to an engine that is ready to run, with all that its gates need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from harness import registry, stack
from harness.engine.build import build
from harness.engine.capture import in_graph
from harness.errors import UsageError
from harness.gates.inflation import check_inflation
from harness.gates.judgement import Bench
from harness.measure.prompts import PromptMaker, Share, held_out_text, text_tokens
from harness.model import source as sources
from harness.model import weights
from harness.model.source import ModelSource
from harness.plan import EnginePlan
from harness.run import GateResult
from harness.shape import DTypeName
from harness.suite.points import GeneratePoint, StackPoint
from harness.worker.job import Job

# Of random weights. A constant: the same case is the same numbers every night, and the seed of a
# sweep orders its runs and nothing else.
WEIGHTS_SEED = 0


@dataclass(frozen=True)
class Ground:
    """A job's model and plan, and the references' own copy of the weights."""

    job: Job
    source: ModelSource
    plan: EnginePlan
    bench: Bench
    gates: tuple[GateResult, ...] = ()  # of the model itself, before any engine

    @property
    def point(self) -> GeneratePoint:
        """B, P and N of a `generate` case."""
        return self.job.case.generated

    def engine(self) -> Any:
        """A new engine. It loads its weights itself: one that damages them must not damage the
        references' too."""
        capture = in_graph if self.job.case.cuda_graph else None
        return build(
            self.plan, self.source, device=self.job.device, seed=WEIGHTS_SEED, capture=capture
        )

    def forget_captured(self, engine: Any) -> None:
        """After a repetition in poisoned memory: its captured steps would go on poisoning."""
        if self.job.case.cuda_graph:
            engine.forget_captured()


def prepare(job: Job) -> Ground:
    """Set the threads, find model and stack, load the references' weights.

    Raises UnfitError for a stack that does not fit, UsageError for a model that is not there or
    whose checkpoint changed since the case was planned.
    """
    case = job.case
    torch.set_num_threads(case.threads)
    if torch.get_num_interop_threads() != 1:
        torch.set_num_interop_threads(1)
    registry.install(job.plugin_paths)
    source = sources.find(case.model, case.composed.member_names)
    if source.checkpoint_hash != case.checkpoint_hash:
        raise UsageError(
            f"the checkpoint of {case.model} is not the one this case was planned with "
            f"({_short(source.checkpoint_hash)} instead of {_short(case.checkpoint_hash)}); plan "
            "the sweep again"
        )
    return ground(job, source, case.dtype, case.stacked)


def ground(job: Job, source: ModelSource, dtype: DTypeName, point: StackPoint) -> Ground:
    """The same job in a dtype and at a point that may differ from the case's."""
    case = job.case.model_copy(update={"dtype": dtype, "workload": point})
    plan = stack.resolve(
        case.composed,
        source,
        dtype=dtype,
        backend=case.backend,
        slots=point.slots,
        max_tokens=point.max_tokens,
        state_bytes=point.state_bytes,
    )
    wanted = getattr(torch, dtype)
    gates: tuple[GateResult, ...] = ()
    if source.inflation is not None:
        enlarged = weights.inflated(source, wanted, job.device)
        loaded, gates = (
            enlarged.tensors,
            (check_inflation(source.inflation.source, enlarged.divergence),),
        )
    else:
        loaded = weights.load(source, plan.shape, wanted, job.device, WEIGHTS_SEED)
    # The device's room is the case's.
    own = {name: tensor.to("cpu") for name, tensor in loaded.items()}
    bench = Bench(case.composed, plan, own, job.device)
    return Ground(job.model_copy(update={"case": case}), source, plan, bench, gates)


def prompt_maker(ground: Ground) -> PromptMaker:
    """Prompts for a job: held-out text for a trained model, random ids otherwise."""
    job, point = ground.job, ground.point
    rounds = job.measure.rounds
    text = held_out_text(ground.source, text_tokens(point.prompt_tokens, point.batch, rounds))
    share = Share(point.title, job.round, rounds)
    return PromptMaker(ground.plan.shape.vocab, point.prompt_tokens, share, text)


def _short(checkpoint_hash: str | None) -> str:
    return checkpoint_hash[:12] if checkpoint_hash else "random weights"
