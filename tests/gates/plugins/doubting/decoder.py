"""Proposes a token that is never accepted."""

from __future__ import annotations

from torch import Tensor

from harness.engine.decoder import Proposal, Verdict
from harness.engine.request import Sequence
from harness.engine.runner import Runner
from harness.plan import EnginePlan


class Doubting:
    """Always wrong, and always found out."""

    align = 1
    causal_block = 1
    min_ahead = 0

    def __init__(self, runner: Runner, plan: EnginePlan) -> None:
        self._vocab = plan.shape.vocab

    def certain(self, sequence: Sequence) -> int:
        """All of them."""
        return len(sequence.tokens)

    def lookahead(self, sequence: Sequence) -> int:
        """One, where one more token is to come after the next."""
        return min(1, sequence.remaining - 1)

    def propose(self, sequences: list[Sequence], ahead: list[int]) -> dict[int, Proposal]:
        """Some token."""
        return {
            s.id: Proposal([(31 * len(s.tokens) + s.id) % self._vocab] * granted)
            for s, granted in zip(sequences, ahead, strict=True)
        }

    def verify(
        self,
        sequences: list[Sequence],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        """The best token of the first row; the proposal goes."""
        return [Verdict([int(rows[0].argmax())], []) for rows in logits]

    def free(self, sequence: Sequence) -> None:
        """Nothing is kept."""

    def reset(self) -> None:
        """Nothing is kept."""
