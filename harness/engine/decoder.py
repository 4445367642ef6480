"""The decoding slot's contract: what to propose, and what of it to keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from harness.engine.request import Sequence


@dataclass
class Proposal:
    """Tokens guessed to follow a sequence, to be verified in one forward."""

    tokens: list[int] = field(default_factory=list)
    # Position of each beyond the sequence's end; None: a chain, 0, 1, 2, ...
    depths: list[int] | None = None
    # [n, n] bool, row sees column; None: a chain.
    tree: Tensor | None = None


@dataclass
class Verdict:
    """What became final for one sequence."""

    tokens: list[int]
    # Offsets into the proposal whose state stays, ascending. 0, 1, .. a - 1 is a rewind.
    kept: list[int]


class Decoder(Protocol):
    """Proposes and verifies. The scheduler grants how many proposals a step has room for."""

    align: int  # certain tokens of a chunk come in multiples of it
    causal_block: int
    min_ahead: int  # with fewer granted proposals a step only prefills

    def certain(self, sequence: Sequence) -> int:
        """How many of its tokens may enter the cache for good: all where `align` is 1."""

    def lookahead(self, sequence: Sequence) -> int:
        """Proposals wanted, at most `sequence.remaining - 1`."""

    def propose(self, sequences: list[Sequence], ahead: list[int]) -> dict[int, Proposal]:
        """Proposals by sequence id, each at most as long as granted."""

    def verify(
        self,
        sequences: list[Sequence],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        """Judge each sequence's proposal by its logits [1 + n, V] and features [1 + n, D].

        The first row is the last certain token's; where none was fed it is missing: [n, V].
        """

    def free(self, sequence: Sequence) -> None:
        """The sequence finished or was preempted: drop what is kept for it outside `extra`."""

    def reset(self) -> None:
        """Forget everything."""
