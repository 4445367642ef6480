"""What goes into an engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Reason = Literal["length", "eos", "refused"]


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Temperature 0 is greedy; top_k 0 and top_p 1 are off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """One prompt to continue. Arrival times belong to the driver; the engine never sees a clock."""

    id: int
    prompt: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling = Sampling()
    eos: int | None = None
    samples: int = 1  # answers to this prompt, which is fed once; each has noise of its own


@dataclass(frozen=True)
class Emission:
    """Tokens that became final for one request in one step."""

    request_id: int
    token_ids: tuple[int, ...]
    finished: bool
    reason: Reason | None = None  # set when finished
    sample: int = 0  # which of the request's answers
    # Why a request was refused, for people.
    sentence: str | None = field(default=None, compare=False)


@dataclass(eq=False)
class Sequence:
    """A request in progress, with every token it has so far, the prompt's included.

    A request for several answers is one sequence until its prompt is fed, and then one each.
    """

    request: Request
    tokens: list[int]
    finished: Reason | None = None
    sample: int = 0  # which of the request's answers
    key: int | None = None  # its name in every store, where that is not the request's id
    branches: int = 0  # further answers that still have to branch off
    entered: bool = False  # whether any of it was ever fed
    # The decoder's own notes. They survive preemption, or the decoder can rebuild them.
    extra: dict[str, Any] = field(default_factory=dict)
    # What names the sequence in every store: the request's id, unless it branched off.
    id: int = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.request.id if self.key is None else self.key

    @property
    def remaining(self) -> int:
        """New tokens still wanted."""
        return self.request.max_new_tokens - (len(self.tokens) - len(self.request.prompt))
