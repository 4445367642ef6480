"""Synthetic tasks with one right answer: recall of pairs, and a needle at a stated distance.

Tokens are plain numbers that no tokenizer knows. A task is a function of its seed alone, so a
trainer, a test and a workload that name the same seed see the same questions. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError

Ids = NDArray[np.int64]

# Every sequence starts with this token, as those of text start with <s>.
START = 0
# Marks of a position that asks nothing.
NO_ANSWER = -1


@dataclass(frozen=True)
class Questions:
    """Sequences and the answers they ask for.

    `answers[b, t]` is the token that follows `tokens[b, t]`, where that is a question, else -1. An
    answer stands in the sequence behind its question, as it would when decoded.
    """

    tokens: Ids  # [B, T]
    answers: Ids  # [B, T]


@dataclass(frozen=True)
class Prompt:
    """One question: the tokens up to and with it, and the token to come."""

    tokens: tuple[int, ...]
    answer: int


@dataclass(frozen=True)
class Recall:
    """Multi-query associative recall (arXiv:2312.04927, section 3): `pairs` times a key and its
    value, then every key once more in another order, each followed by its value.

    No two keys of a sequence are alike; a value may come twice.
    """

    pairs: int
    keys: int
    values: int

    def __post_init__(self) -> None:
        """UsageError for more pairs than keys."""
        if self.pairs > self.keys:
            raise UsageError(f"recall of {self.pairs} pairs needs as many keys, not {self.keys}")

    @property
    def vocab(self) -> int:
        """Entries: the start, the keys, the values."""
        return 1 + self.keys + self.values

    @property
    def length(self) -> int:
        """Tokens a sequence."""
        return 1 + 4 * self.pairs

    def questions(self, rows: int, *seed: int) -> Questions:
        """`rows` sequences of `length` tokens, the same ones for the same seed."""
        draw = _generator(*seed)
        keys = 1 + draw.permuted(np.tile(np.arange(self.keys), (rows, 1)), axis=1)[:, : self.pairs]
        values = 1 + self.keys + draw.integers(0, self.values, size=(rows, self.pairs))
        order = draw.permuted(np.tile(np.arange(self.pairs), (rows, 1)), axis=1)
        asked = np.take_along_axis(keys, order, axis=1)
        wanted = np.take_along_axis(values, order, axis=1)
        tokens = np.full((rows, self.length), START)
        tokens[:, 1:] = np.stack(
            (np.concatenate((keys, asked), 1), np.concatenate((values, wanted), 1)), axis=2
        ).reshape(rows, -1)
        answers = np.full_like(tokens, NO_ANSWER)
        answers[:, 1 + 2 * self.pairs :: 2] = wanted
        return Questions(tokens=tokens, answers=answers)


@dataclass(frozen=True)
class Needle:
    """Find what a slot held: `slots` needles lie among filler, then `asks` of them are asked for.

    A needle is one token that says slot and value at once, a question one token that names the
    slot, and the answer the needle once more. An asked needle lies its distance before its
    question, the others lie anywhere among the filler. A model that sees fewer tokens back than
    the distance is left with a chance of 1 in `values`.
    """

    slots: int
    values: int
    filler: int
    near: int  # distances a question may have, from ...
    far: int  # ... to
    asks: int = 4

    def __post_init__(self) -> None:
        """UsageError for questions that cannot all be asked."""
        if self.asks > self.slots or self.near < 2 * self.asks:
            raise UsageError(
                f"a needle task of {self.asks} questions needs as many slots and distances of at "
                f"least {2 * self.asks}; it has {self.slots} slots and distances from {self.near}"
            )

    @property
    def vocab(self) -> int:
        """Entries: the start, the questions, the needles, the filler."""
        return 1 + self.slots + self.slots * self.values + self.filler

    @property
    def length(self) -> int:
        """Tokens a sequence: the start, room for the farthest needle, questions and answers."""
        return 1 + self.far + 2 * self.asks

    def questions(self, rows: int, *seed: int, distance: int | None = None) -> Questions:
        """`rows` sequences of `length` tokens, all at one `distance` or each at one drawn evenly
        in the logarithm, so that near ones are as common as far ones."""
        draw = _generator(*seed)
        first = 1 + self.slots  # the first needle's id
        filler = first + self.slots * self.values
        tokens = filler + draw.integers(0, self.filler, size=(rows, self.length))
        tokens[:, 0] = START
        values = draw.integers(0, self.values, size=(rows, self.slots))
        held = first + np.arange(self.slots) * self.values + values  # [B, slots]
        spread = draw.uniform(np.log(self.near), np.log(self.far + 1), size=(rows, self.asks))
        back = np.minimum(np.exp(spread).astype(np.int64), self.far)  # [B, asks]
        if distance is not None:
            back[:] = distance
        at = self.length - 2 * np.arange(self.asks, 0, -1)  # where the questions stand
        answers = np.full_like(tokens, NO_ANSWER)
        for row in range(rows):
            order = draw.permutation(self.slots)
            places = draw.permutation(np.arange(1, at[0]))[: self.slots]
            asked = order[: self.asks]
            places[asked] = self._apart(at - back[row], at[0])
            tokens[row, places] = held[row]
            # An asked needle is written last: another one that lay in its place gives way.
            tokens[row, places[asked]] = held[row, asked]
            tokens[row, at] = 1 + asked
            tokens[row, at + 1] = answers[row, at] = held[row, asked]
        return Questions(tokens=tokens, answers=answers)

    @staticmethod
    def _apart(places: Ids, end: int) -> Ids:
        """Distinct places before `end`, each as near to the wished one as is free."""
        taken: list[int] = []
        for place in places.tolist():
            fit = min(max(place, 1), end - 1)
            while fit in taken:
                fit = fit - 1 if fit > 1 else end - 1
            taken.append(fit)
        return np.array(taken)


Task = Recall | Needle


def recall_prompts(task: Recall, count: int, seed: int) -> list[Prompt]:
    """`count` recall sequences, cut behind their last question."""
    return _prompts(task.questions(count, seed, 1))


def needle_prompts(task: Needle, count: int, seed: int, distance: int) -> list[Prompt]:
    """`count` needle sequences whose asked needle lies `distance` tokens back."""
    return _prompts(task.questions(count, seed, 1, distance=distance))


def _prompts(questions: Questions) -> list[Prompt]:
    last = [int(np.flatnonzero(row != NO_ANSWER)[-1]) for row in questions.answers]
    return [
        Prompt(tokens=tuple(tokens[: at + 1].tolist()), answer=int(answers[at]))
        for tokens, answers, at in zip(questions.tokens, questions.answers, last, strict=True)
    ]


def _generator(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
