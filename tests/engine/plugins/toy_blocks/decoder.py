"""Proposes a whole block with masks where nothing is decided; the last step of a block emits it."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.engine.decoder import Proposal, Verdict
from harness.engine.request import Sequence
from harness.engine.runner import Runner
from harness.plan import EnginePlan

from . import Options


class Blocks:
    """The block in progress lives in `sequence.extra`, so it survives preemption."""

    def __init__(self, runner: Runner, plan: EnginePlan, options: Options) -> None:
        self.align = self.causal_block = self.min_ahead = options.block
        self._per_step = options.per_step
        self._mask = plan.shape.vocab - 1

    def certain(self, sequence: Sequence) -> int:
        return len(sequence.tokens) // self.align * self.align

    def lookahead(self, sequence: Sequence) -> int:
        return self.align

    def propose(self, sequences: list[Sequence], ahead: list[int]) -> dict[int, Proposal]:
        proposals = {}
        for sequence in sequences:
            if "block" not in sequence.extra:
                tail = sequence.tokens[self.certain(sequence) :]
                sequence.extra["block"] = tail + [self._mask] * (self.align - len(tail))
            proposals[sequence.id] = Proposal(list(sequence.extra["block"]))
        return proposals

    def verify(
        self,
        sequences: list[Sequence],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        verdicts = []
        for sequence, rows in zip(sequences, logits, strict=True):
            block = sequence.extra["block"]
            fill(block, rows[-self.align :], self._mask, self._per_step)
            if self._mask in block:
                verdicts.append(Verdict([], []))
                continue
            verdicts.append(Verdict(block[len(sequence.tokens) - self.certain(sequence) :], []))
            del sequence.extra["block"]
        return verdicts

    def free(self, sequence: Sequence) -> None:
        pass

    def reset(self) -> None:
        pass


def fill(block: list[int], logits: Tensor, mask: int, places: int) -> None:
    """Decide the most confident open places of a block by their logits [b, V]."""
    chances = logits.double().clone()
    chances[:, mask] = -torch.inf
    best, tokens = chances.softmax(-1).max(-1)
    undecided = [place for place, token in enumerate(block) if token == mask]
    for place in sorted(undecided, key=lambda p: -best[p].item())[:places]:
        block[place] = int(tokens[place])
