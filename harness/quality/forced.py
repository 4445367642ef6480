"""A stack over given text: its own engine and cache, token by token, with the text decided.

Everything but the choice of tokens is the stack's: each step feeds one token, reads the cache as
decoding does, and gives the logits that would have decided the next. What a cache or a weight
format costs in quality therefore shows here as it does when text is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.engine.build import make_runner
from harness.engine.decoder import Proposal, Verdict
from harness.engine.request import Request
from harness.engine.request import Sequence as Running
from harness.errors import HarnessError
from harness.plan import EnginePlan, Trait


class NoProbabilityError(HarnessError):
    """A stack that gives no token a probability from what stands before it."""


@dataclass(frozen=True)
class Text:
    """Tokens of one text; the first `fed` enter at once, the others one by one."""

    tokens: tuple[int, ...]
    fed: int = 1

    def __post_init__(self) -> None:
        assert 0 < self.fed < len(self.tokens), "a text is fed in part and decided in part"


class Forced:
    """The decoding slot's contract, with every token given beforehand."""

    align = 1
    causal_block = 1
    min_ahead = 0

    def __init__(self) -> None:
        self._texts: Sequence[Text] = ()
        self._rows: list[list[Tensor]] = []

    def begin(self, texts: Sequence[Text]) -> None:
        """Decide these texts from now on; request i is text i."""
        self._texts = texts
        self._rows = [[] for _ in texts]

    def logits(self) -> list[Tensor]:
        """For each text, the logits that decide its tokens from `fed` on, [n, V]."""
        return [torch.stack(rows) for rows in self._rows]

    def certain(self, sequence: Running) -> int:
        """Every token of a sequence is final."""
        return len(sequence.tokens)

    def lookahead(self, sequence: Running) -> int:
        """Nothing is proposed."""
        del sequence
        return 0

    def propose(self, sequences: list[Running], ahead: list[int]) -> dict[int, Proposal]:
        """Nothing is proposed."""
        del sequences, ahead
        return {}

    def verify(
        self,
        sequences: list[Running],
        proposals: dict[int, Proposal],
        logits: list[Tensor],
        hidden: list[Tensor],
    ) -> list[Verdict]:
        """Keep each row, and give the text's next token."""
        del proposals, hidden
        found = []
        for sequence, rows in zip(sequences, logits, strict=True):
            text = self._texts[sequence.request.id].tokens
            place = len(sequence.tokens)
            if place >= len(text):
                # A sequence that is finished and still computed, to fill up its batch.
                found.append(Verdict([0], []))
                continue
            # A copy: the engine may reuse the memory.
            self._rows[sequence.request.id].append(rows[-1].detach().clone())
            found.append(Verdict([text[place]], []))
        return found

    def free(self, sequence: Running) -> None:
        """Nothing is kept for a sequence but its rows."""

    def reset(self) -> None:
        """What `begin` was given stays: an engine is reset before each run."""


@dataclass
class Reader:
    """An engine whose tokens are given."""

    engine: Any
    decoder: Forced
    slots: int

    def read(self, texts: Sequence[Text]) -> list[Tensor]:
        """For each text the logits that decide its tokens from `fed` on, [n, V].

        All of them are held at once: give few where texts are long or vocabularies large.
        """
        self.engine.reset()
        self.decoder.begin(texts)
        for i, text in enumerate(texts):
            self.engine.submit(Request(i, text.tokens[: text.fed], len(text.tokens) - text.fed))
        silent = 0
        with torch.inference_mode():
            while self.engine.has_work:
                emitted = self.engine.step()
                silent = 0 if emitted else silent + 1
                assert silent < 4 * sum(len(text.tokens) for text in texts), "the engine is stuck"
                refused = [each for each in emitted if each.reason == "refused"]
                assert not refused, "a text does not fit the limits that the engine was built for"
        return self.decoder.logits()


def reader(plan: EnginePlan, weights: dict[str, Tensor], device: str) -> Reader:
    """The plan's engine with its decoding slot taken over.

    Raises NoProbabilityError for stacks that fill blocks: no row of one step decides a token.
    """
    if not plan.traits.isdisjoint({Trait.BLOCKWISE, Trait.BIDIRECTIONAL}):
        raise NoProbabilityError(
            "this stack fills blocks of tokens whose places see each other, so that a text has no "
            "probability from left to right; task: greedy compares what it writes"
        )
    assert plan.scheduler is not None
    decoder = Forced()
    runner = make_runner(plan, weights, device=device)
    engine = plan.engine.make(runner, decoder, plan.scheduler.make(plan), plan.limits.max_tokens)
    return Reader(engine, decoder, plan.limits.slots)
