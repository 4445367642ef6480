"""EnginePlan: a stack turned into factories and numbers, with no tensor in it.

Built for every case of a sweep before anything runs, so it is cheap and imports nothing heavy.
Order of application: architecture, weights, cache, decoding, scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.shape import DTypeName, ModelShape
from harness.technique import Factory


class Trait(StrEnum):
    """What a part is, where another part cares: `apply` adds them, `harness.fit` reads them.

    Planning refuses stacks by a table over these, so a technique of the same kind needs no rule of
    its own. Where the pairs come from is said there.
    """

    # architecture
    # Layers keep entries a token: keys and values, or a latent.
    TOKEN_STATE = "token-state"  # noqa: S105 (a language model's tokens)
    RECURRENT = "recurrent"  # layers keep state of fixed size a sequence
    WINDOW = "window"  # some layers never read entries left of a window
    # cache
    INCREMENTAL = "incremental"  # earlier tokens are held; a forward feeds only new ones
    PAGED = "paged"  # entries live in blocks behind a table
    GROWS = "grows"  # a sequence takes room as it grows, so that room may run out
    SHARES_PREFIX = "shares-prefix"  # equal beginnings are held once
    # decoding
    REJECTS = "rejects"  # proposals may be taken back
    TREE = "tree"  # proposals branch
    BLOCKWISE = "blockwise"  # places inside a block see each other, in both directions
    BIDIRECTIONAL = "bidirectional"  # every place sees every other
    # scheduling
    CHUNKS = "chunks"  # prompts are fed in pieces
    ALIGNS = "aligns"  # pieces end where the decoder's blocks do (`Limits.align`)
    PREEMPTS = "preempts"  # a running sequence may be put back in the queue


@dataclass(frozen=True)
class Limits:
    """Sizes an engine is built for; factories read them from the finished plan."""

    slots: int  # sequences held at once
    max_tokens: int  # longest sequence, prompt and new tokens together
    lookahead: int = 0  # most proposals of one sequence in one step
    align: int = 1  # certain tokens of a chunk come in multiples of it
    # Memory for per-token state; None: room for every slot at its longest.
    state_bytes: int | None = None


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
    # What the parts so far are, of `Trait`; the rules of `harness.fit` read these.
    traits: frozenset[str] = field(default_factory=frozenset)

    def add(self, *traits: str, **changes: Any) -> EnginePlan:
        """This plan with traits added and fields replaced."""
        return replace(self, traits=self.traits | set(traits), **changes)
