"""Verifies a scripted chain greedily: the longest prefix that the model itself would have taken."""

from __future__ import annotations

from torch import Tensor

from harness.engine.decoder import Proposal, Verdict
from harness.engine.request import Sequence
from harness.engine.runner import Runner
from harness.plan import EnginePlan

from . import Options


class Chain:
    """Counts what it accepts and rejects, so that a test can assert that both happened."""

    align = 1
    causal_block = 1
    min_ahead = 0

    def __init__(self, runner: Runner, plan: EnginePlan, options: Options) -> None:
        self._options = options
        self._vocab = plan.shape.vocab
        self.accepted = 0
        self.rejected = 0

    def certain(self, sequence: Sequence) -> int:
        return len(sequence.tokens)

    def lookahead(self, sequence: Sequence) -> int:
        return max(0, min(self._options.length, sequence.remaining - 1))

    def propose(self, sequences: list[Sequence], ahead: list[int]) -> dict[int, Proposal]:
        return {
            sequence.id: Proposal(self._guess(sequence, granted))
            for sequence, granted in zip(sequences, ahead, strict=True)
        }

    def _guess(self, sequence: Sequence, granted: int) -> list[int]:
        script = self._options.script[sequence.id]
        done = len(sequence.tokens) - len(sequence.request.prompt)
        return [
            (token + self._wrong(done + offset)) % self._vocab
            for offset, token in enumerate(script[done : done + granted])
        ]

    def _wrong(self, place: int) -> bool:
        return place % self._options.wrong_every == self._options.wrong_every - 1

    def verify(
        self,
        sequences: list[Sequence],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        verdicts = []
        for sequence, rows in zip(sequences, logits, strict=True):
            guess, best = proposals[sequence.id].tokens, rows.argmax(-1).tolist()
            taken = 0
            while taken < len(guess) and guess[taken] == best[taken]:
                taken += 1
            self.accepted += taken
            self.rejected += len(guess) - taken
            verdicts.append(Verdict(best[: taken + 1], list(range(taken))))
        return verdicts

    def free(self, sequence: Sequence) -> None:
        pass

    def reset(self) -> None:
        self.accepted = self.rejected = 0
