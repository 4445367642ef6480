"""Verifies a tree of five nodes greedily: from the root, as long as a child is what comes next."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.engine.decoder import Proposal, Verdict
from harness.engine.request import Sequence
from harness.engine.runner import Runner
from harness.plan import EnginePlan

from . import Options

# Nodes by depth, so that the first n are a tree again. Node 0 is wrong and 2 hangs below it; the
# script is 1, 3, 4, where 4 is wrong at every third place.
_PARENT = (-1, -1, 0, 1, 3)
_DEPTH = (0, 0, 1, 1, 2)
_WRONG = (True, False, False, False, False)


class Tree:
    """Counts what it accepts and rejects, so that a test can assert that both happened."""

    align = 1
    causal_block = 1
    min_ahead = 0

    def __init__(self, runner: Runner, plan: EnginePlan, options: Options) -> None:
        self._script = options.script
        self._vocab = plan.shape.vocab
        sees = torch.eye(len(_PARENT), dtype=torch.bool)  # [n, n], row sees column
        for node, parent in enumerate(_PARENT):
            if parent >= 0:
                sees[node] |= sees[parent]
        self._sees = sees
        self.accepted = 0
        self.rejected = 0

    def certain(self, sequence: Sequence) -> int:
        return len(sequence.tokens)

    def lookahead(self, sequence: Sequence) -> int:
        # A path of depth d emits d + 2 tokens.
        return sum(depth + 2 <= sequence.remaining for depth in _DEPTH)

    def propose(self, sequences: list[Sequence], ahead: list[int]) -> dict[int, Proposal]:
        return {
            sequence.id: Proposal(
                [self._token(sequence, node) for node in range(nodes)],
                list(_DEPTH[:nodes]),
                self._sees[:nodes, :nodes],
            )
            for sequence, nodes in zip(sequences, ahead, strict=True)
        }

    def _token(self, sequence: Sequence, node: int) -> int:
        place = len(sequence.tokens) - len(sequence.request.prompt) + _DEPTH[node]
        wrong = _WRONG[node] or (node == 4 and place % 3 == 0)
        return (self._script[sequence.id][place] + wrong) % self._vocab

    def verify(
        self,
        sequences: list[Sequence],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        verdicts = []
        for sequence, rows in zip(sequences, logits, strict=True):
            nodes, best = proposals[sequence.id].tokens, rows.argmax(-1).tolist()
            at, tokens, kept = -1, [best[0]], []
            while True:
                following = [
                    node
                    for node, token in enumerate(nodes)
                    if _PARENT[node] == at and token == tokens[-1]
                ]
                if not following:
                    break
                at = following[0]
                kept.append(at)
                tokens.append(best[at + 1])
            self.accepted += len(kept)
            self.rejected += len(nodes) - len(kept)
            verdicts.append(Verdict(tokens, kept))
        return verdicts

    def free(self, sequence: Sequence) -> None:
        pass

    def reset(self) -> None:
        self.accepted = self.rejected = 0
