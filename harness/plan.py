"""EnginePlan: a stack turned into factories and numbers, with no tensor in it.

Built for every case of a sweep before anything runs, so it is cheap and imports nothing heavy.
Order of application: architecture, weights, cache, decoding, scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from harness.shape import DTypeName, ModelShape
from harness.technique import Factory


@dataclass(frozen=True)
class Limits:
    """Sizes an engine is built for; factories read them from the finished plan."""

    slots: int  # sequences held at once
    max_tokens: int  # longest sequence, prompt and new tokens together
    lookahead: int = 0  # most proposals of one sequence in one step
    align: int = 1  # certain tokens of a chunk come in multiples of it


@dataclass(frozen=True)
class EnginePlan:
    """Everything needed to build an engine: each slot's factory, the shape, and the limits."""

    shape: ModelShape
    dtype: DTypeName
    backend: str
    limits: Limits
    linear: Factory = Factory("harness.model.linear:Dense")
    # Each maps a state dict to a state dict, before layers are built.
    transforms: tuple[Factory, ...] = ()
    cache: Factory | None = None
    decoder: Factory | None = None
    scheduler: Factory | None = None
    # (runner, decoder, scheduler) -> an object with submit, step, has_work, reset.
    engine: Factory = Factory("harness.engine.engine:Engine")
    # What the parts so far are; the rules of `harness.stack` read these.
    traits: frozenset[str] = field(default_factory=frozenset)

    def add(self, *traits: str, **changes: Any) -> EnginePlan:
        """This plan with traits added and fields replaced."""
        return replace(self, traits=self.traits | set(traits), **changes)
