"""Tokens out of text: the training windows of a step, and the held-out windows."""

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
import tokenizers
import torch
from torch import Tensor
from torch.nn import functional

from harness.errors import UsageError
from harness.zoo.corpus import Novel
from harness.zoo.table import Budget
from harness.zoo.tasks import NO_ANSWER
from harness.zoo.tokenizer import BOS_ID, EOS_ID

# A chapter is a document: its end is what `</s>` means.
CHAPTER = re.compile(r"^(?=(?:CHAPTER|Chapter) )", re.MULTILINE)


@dataclass(frozen=True)
class Batch:
    """Windows of one step. Both [B, T], int64; a negative target is not learned."""

    tokens: Tensor
    targets: Tensor


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats of logits [..., V] over the targets [...] that are not negative.

    Every negative target is -1 (`tasks.NO_ANSWER`).
    """
    return functional.cross_entropy(
        logits.float().flatten(0, -2), targets.flatten(), ignore_index=NO_ANSWER
    )


def training_tokens(novels: list[Novel], tokenizer: tokenizers.Tokenizer) -> Tensor:
    """All train parts as one int64 tensor, `</s>` after each chapter."""
    return _training_tokens(tuple(novels), tokenizer.to_str())


# Training many models in one process encodes the novels, seconds of work, once.
@cache
def _training_tokens(novels: tuple[Novel, ...], tokenizer: str) -> Tensor:
    encoder = tokenizers.Tokenizer.from_str(tokenizer)
    ids: list[int] = []
    for novel in novels:
        for chapter in CHAPTER.split(novel.train):
            if chapter:
                ids += [*encoder.encode(chapter).ids, EOS_ID]
    return torch.tensor(ids, dtype=torch.int64)


def batch(tokens: Tensor, budget: Budget, step: int) -> Batch:
    """The windows of one step, a function of (seed, step) only, so that a resume needs no state.

    Places are drawn uniformly. Every second window begins with `<s>` in place of its first token:
    the model then serves prompts with and without it.
    """
    length = budget.window(step)
    if len(tokens) <= length:
        raise UsageError(
            f"the corpus has {len(tokens)} training tokens, too few for a window of {length}"
        )
    rows = budget.step_tokens // length
    draw = np.random.Generator(np.random.Philox(key=[budget.seed, step]))
    starts = torch.from_numpy(draw.integers(0, len(tokens) - length, size=rows))  # [B]
    windows = tokens[starts[:, None] + torch.arange(length + 1)]  # [B, T+1]
    inputs = windows[:, :-1].clone()
    inputs[step % 2 :: 2, 0] = BOS_ID
    return Batch(tokens=inputs, targets=windows[:, 1:])


def held_out_windows(
    novels: list[Novel], tokenizer: tokenizers.Tokenizer, length: int
) -> tuple[Tensor, int]:
    """Held-out text as windows [W, length+1] that meet in one token, and the bytes they predict.

    No window crosses two novels; what does not fill a window at a novel's end is left out. Raises
    UsageError when not one window can be filled.
    """
    windows: list[list[int]] = []
    for novel in novels:
        ids = tokenizer.encode(novel.held_out).ids
        for start in range(0, len(ids) - length, length):
            windows.append(ids[start : start + length + 1])
    if not windows:
        raise UsageError(
            f"the corpus has no held-out part of at least {length + 1} tokens; "
            "its held-out text is too short to judge a model on"
        )
    lengths = byte_lengths(tokenizer)
    text_bytes = sum(lengths[i] for ids in windows for i in ids[1:])
    return torch.tensor(windows, dtype=torch.int64), text_bytes


def byte_lengths(tokenizer: tokenizers.Tokenizer) -> list[int]:
    """Bytes of text each entry stands for: byte-level BPE writes one character a byte."""
    lengths = [0] * tokenizer.get_vocab_size()
    for text, index in tokenizer.get_vocab().items():
        lengths[index] = len(text)
    lengths[BOS_ID] = lengths[EOS_ID] = 0
    return lengths
