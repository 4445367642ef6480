"""What a task asks: texts, and which of their tokens are judged. The same for the same point.

Held-out text is the zoo's, which no model of the zoo was trained on; another model may have been.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import UnfitError
from harness.metrics import NEEDLE_DISTANCES
from harness.model import tokenizer as tokenizers
from harness.model.source import ModelSource
from harness.quality.forced import Text
from harness.zoo import corpus
from harness.zoo.tasks import NO_ANSWER, Needle, Questions, Recall, Task

# Continuations of a cloze text, the true one among them.
CHOICES = 4
_TASKS: dict[str, type[Recall] | type[Needle]] = {"Recall": Recall, "Needle": Needle}


@dataclass(frozen=True)
class Asked:
    """A text, and the places of it that hold an answer: tokens to be decided right."""

    text: Text
    places: tuple[int, ...]


@dataclass(frozen=True)
class Cloze:
    """One beginning with several continuations, the true one first."""

    texts: tuple[Text, ...]


@dataclass(frozen=True)
class Passages:
    """Windows of held-out text that do not overlap, and the bytes of each vocabulary entry."""

    windows: tuple[tuple[int, ...], ...]
    entry_bytes: tuple[int, ...]


def passages(source: ModelSource, count: int, length: int) -> Passages:
    """`count` windows of `length` tokens, from all novels and evenly spread over each.

    Raises UnfitError for a model without a tokenizer, or with one whose entries are no bytes, and
    where there is not so much text.
    """
    if source.tokenizer is None:
        raise UnfitError(
            f"'{source.name}' has no tokenizer, so it has no text to be judged on; a trained model "
            "of 'harness list models' has one"
        )
    tokenizer = tokenizers.load(source.tokenizer, source.shape.vocab)
    lengths = _entry_bytes(tokenizer, source.shape.vocab)
    found: list[list[tuple[int, ...]]] = []
    for novel in corpus.read():
        ids = tokenizer.encode(novel.held_out, add_special_tokens=False).ids
        if sum(lengths[i] for i in ids) != len(novel.held_out.encode()):
            raise UnfitError(
                f"the entries of {source.name}'s tokenizer are no bytes, so that its loss cannot "
                "be told in bits a byte"
            )
        found.append(
            [tuple(ids[at : at + length]) for at in range(0, len(ids) - length + 1, length)]
        )
    total = sum(map(len, found))
    if total < count:
        raise UnfitError(
            f"the held-out text has {total} windows of {length} tokens in {source.name}'s "
            f"tokenizer, and windows is {count}; fewer or shorter ones fit"
        )
    every = [window for novel in found for window in novel]
    chosen = (every[i * total // count] for i in range(count))
    return Passages(tuple(chosen), lengths)


def copies(windows: Sequence[tuple[int, ...]], fed: int) -> list[Asked]:
    """Each passage's first half twice: the second time every token could be looked up.

    Its first token is left out: nothing says that the passage begins again.
    """
    asked = []
    for window in windows:
        half = window[: len(window) // 2]
        places = tuple(range(len(half) + 1, 2 * len(half)))
        asked.append(Asked(Text((*half, *half), fed), places))
    return asked


def clozes(windows: Sequence[tuple[int, ...]], fed: int, seed: int) -> list[Cloze]:
    """Each passage cut at `fed`, with its own continuation and those of other passages."""
    found = []
    for i, window in enumerate(windows):
        others = [j for j in range(len(windows)) if j != i]
        drawn = random.Random(f"{seed}/{i}").sample(others, CHOICES - 1)
        ends = [window[fed:], *(windows[j][fed:] for j in drawn)]
        found.append(Cloze(tuple(Text((*window[:fed], *end), fed) for end in ends)))
    return found


def task_of(source: ModelSource) -> Task:
    """The synthetic task that a model was trained for. UnfitError for a model of text."""
    said: dict[str, Any] = dict(source.task)
    kind = said.pop("kind", None)
    if kind not in _TASKS:
        raise UnfitError(
            f"'{source.name}' was trained on no recall or needle task; zoo/needle256 was"
        )
    return _TASKS[kind](**said)


def recalls(task: Task, source: ModelSource, count: int, seed: int) -> list[Asked]:
    """Sequences of pairs in which every key is asked for once."""
    if not isinstance(task, Recall):
        raise UnfitError(f"'{source.name}' was trained to find needles; task: needle asks for them")
    return _asked(task.questions(count, seed, 1))


def needles(task: Task, source: ModelSource, count: int, seed: int) -> dict[int, list[Asked]]:
    """By distance, sequences whose needles lie so far before their questions."""
    if not isinstance(task, Needle):
        raise UnfitError(f"'{source.name}' was trained to recall pairs; task: recall asks for them")
    fits = [distance for distance in NEEDLE_DISTANCES if task.near <= distance <= task.far]
    return {
        distance: _asked(task.questions(count, seed, 1, distance=distance)) for distance in fits
    }


def _asked(questions: Questions) -> list[Asked]:
    found = []
    for tokens, answers in zip(questions.tokens, questions.answers, strict=True):
        places = np.flatnonzero(answers != NO_ANSWER) + 1
        # What follows the last answer decides nothing.
        end = int(places[-1]) + 1
        found.append(Asked(Text(tuple(tokens[:end].tolist())), tuple(places.tolist())))
    return found


def _entry_bytes(tokenizer: Any, vocab: int) -> tuple[int, ...]:
    """Bytes of text each entry stands for, where a character of it is a byte."""
    special = tokenizer.get_added_tokens_decoder()
    lengths = [0] * vocab
    for text, index in tokenizer.get_vocab().items():
        lengths[index] = 0 if index in special else len(text)
    return tuple(lengths)
