"""Texts for a serve point's requests: exact lengths, equal where the workload wants them to be.

Where it does not, no two prompts begin alike: what a prefix cache finds is what the workload put
there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from harness.engine.request import Request, Sampling
from harness.measure.serve import Due
from harness.suite.arrivals import Arrival, Piece
from harness.suite.points import ServePoint

# Of several answers to one prompt: greedy ones would all be the same.
TEMPERATURE = 1.0
# Held-out text to cut windows out of, at least.
TEXT_TOKENS = 65_536


class Texts:
    """Tokens for pieces of prompts, out of a text or drawn.

    Args:
        vocab: V.
        text: tokens of a text; None: random ids.
        seed: of all choices; another seed gives other texts for the same workload.
    """

    def __init__(self, vocab: int, text: Sequence[int] | None, seed: str) -> None:
        self._vocab = vocab
        self._text = text
        self._seed = seed
        self._named: dict[str, list[int]] = {}
        starts = range(len(text)) if text else range(0)
        self._starts = random.Random(f"{seed}/starts").sample(starts, len(starts))

    @property
    def kind(self) -> str:
        """Where prompts come from."""
        return "random ids" if self._text is None else "held-out text"

    def prompt(self, number: int, pieces: Sequence[Piece]) -> tuple[int, ...]:
        """The tokens of request `number`."""
        tokens: list[int] = []
        for place, piece in enumerate(pieces):
            if piece.name is None:
                tokens += self._own(number, place, piece.tokens)
            else:
                tokens += self._shared(piece.name, piece.tokens)
        return tuple(tokens)

    def _own(self, number: int, place: int, count: int) -> list[int]:
        if self._text is None:
            return self._drawn(f"{number}/{place}", count)
        # Every request begins at a place of its own while there are places.
        return self._cut(self._starts[number % len(self._starts)], count)

    def _shared(self, name: str, count: int) -> list[int]:
        """The first tokens of what has that name."""
        found = self._named.setdefault(name, [])
        if len(found) < count:
            if self._text is None:
                found[:] = self._drawn(name, count)
            else:
                start = random.Random(f"{self._seed}/{name}").randrange(len(self._text))
                found[:] = self._cut(start, count)
        return found[:count]

    def _cut(self, start: int, count: int) -> list[int]:
        """A window of the text, which begins again where it ends."""
        assert self._text is not None
        tokens = [*self._text[start : start + count]]
        while len(tokens) < count:
            tokens += self._text[: count - len(tokens)]
        return tokens

    def _drawn(self, label: str, count: int) -> list[int]:
        draw = random.Random(f"{self._seed}/{label}")
        return [draw.randrange(self._vocab) for _ in range(count)]


def requests(
    point: ServePoint, coming: Sequence[Arrival], texts: Texts, eos: int | None
) -> list[Due]:
    """Every request with its prompt. Several answers to one prompt are sampled, one is greedy."""
    due = []
    for number, arrival in enumerate(coming):
        sampling = Sampling()
        if point.samples > 1:
            sampling = Sampling(temperature=TEMPERATURE, seed=point.seed * 1_000_003 + number)
        request = Request(
            number,
            texts.prompt(number, arrival.pieces),
            arrival.new_tokens,
            sampling,
            eos=eos if point.stop == "eos" else None,
            samples=point.samples,
        )
        due.append(Due(arrival.at_ns, request))
    return due
