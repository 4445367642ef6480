"""Proposes nothing, keeps nothing: a verdict is one sampled token."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness.engine.decoder import Proposal, Verdict
from harness.engine.request import Sequence
from harness.engine.runner import Runner
from harness.engine.sampling import sample
from harness.kernels.sample import eager
from harness.plan import EnginePlan
from harness.technique import TechniqueOptions


class Autoregressive:
    """One token a sequence and step."""

    align = 1
    causal_block = 1
    min_ahead = 0

    def __init__(
        self,
        runner: Runner,
        plan: EnginePlan,
        options: TechniqueOptions | None = None,
    ) -> None:
        del runner, plan, options
        # Replaced by the backend's when an engine is built.
        self.operations: dict[str, Callable[..., Tensor]] = {"sample": eager.sample}

    def certain(self, sequence: Sequence) -> int:
        """Every token of a sequence is final."""
        return len(sequence.tokens)

    def lookahead(self, sequence: Sequence) -> int:
        """Nothing is proposed."""
        del sequence
        return 0

    def propose(self, sequences: list[Sequence], ahead: list[int]) -> dict[int, Proposal]:
        """Nothing is proposed."""
        del sequences, ahead
        return {}

    def verify(
        self,
        sequences: list[Sequence],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        """Sample one token of each sequence's one row of logits."""
        del proposals, hidden
        rows = torch.cat(logits) if len(logits) > 1 else logits[0]  # [B, V]
        tokens = sample(
            rows,
            [s.request.sampling for s in sequences],
            [len(s.tokens) for s in sequences],
            kernel=self.operations["sample"],
        )
        return [Verdict([token], []) for token in tokens]

    def free(self, sequence: Sequence) -> None:
        """Nothing is kept."""

    def reset(self) -> None:
        """Nothing is kept."""
