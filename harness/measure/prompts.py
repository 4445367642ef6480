"""Prompts of exact length, no two alike: over sequences, repetitions and rounds.

A prompt seen twice would let a warm prefix or a remembered answer pass for speed. Prompts are
token ids, so that no text round trip changes their length.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.model.source import ModelSource

Prompts = tuple[tuple[int, ...], ...]
# More distinct prompts than any sweep will ever ask for.
_PLENTY = 1 << 48
# English prose in the zoo's tokenizer of 1,024 entries has 2.9; others have more.
_CHARACTERS_A_TOKEN = 4
_PRIME = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Share:
    """Which prompts of all belong to one process: every `rounds`-th, from `round` on.

    `seed` names the order of all. It is the point's, so that every stack there sees the same
    prompts in a round, tonight and tomorrow: what differs is then not the text.
    """

    seed: str
    round: int
    rounds: int

    @property
    def stride(self) -> int:
        """Prompts are dealt out to this many rounds."""
        return max(self.rounds, self.round + 1)


class PromptMaker:
    """Batches of new prompts, each `length` tokens. Asserts that none repeats in this process.

    Args:
        text: tokens of a text to cut windows out of; None for random ids.
    """

    def __init__(self, vocab: int, length: int, share: Share, text: Sequence[int] | None) -> None:
        self._vocab, self._length, self._share = vocab, length, share
        self._made = 0
        self._seen: set[int] = set()
        self._starts: list[int] | None = None
        if text is not None and len(text) > length:
            self._text = tuple(text)
            self._check(self._text)
            self._starts = _dealt_starts(np.asarray(text, dtype=np.int64), length, share)

    @property
    def kind(self) -> str:
        """Where prompts come from: "held-out text" or "random ids"."""
        return "random ids" if self._starts is None else "held-out text"

    def skip_to(self, count: int) -> None:
        """Go on as if `count` prompts had been made, so that a process that warmed up longer is
        timed on the same ones. Nothing is skipped where that would leave less than is skipped."""
        skipped = max(0, count - self._made)
        if self.left >= 2 * skipped:
            self._made += skipped

    @property
    def left(self) -> int:
        """Prompts that can still be made without one repeating."""
        if self._starts is not None:
            return len(self._starts) - self._made
        total = min(self._vocab**self._length, _PLENTY) if self._length < 64 else _PLENTY
        return total // self._share.stride - self._made

    def batch(self, size: int) -> Prompts:
        """That many prompts. UsageError when so many different ones do not exist."""
        if self.left < size:
            raise UsageError(
                f"prompts of {self._length} tokens from {self.kind} run out: {self.left} unused "
                f"ones are left for round {self._share.round}, {size} are needed; use longer "
                "prompts, a smaller batch or fewer rounds"
            )
        prompts = tuple(self._make(self._made + i) for i in range(size))
        self._made += size
        for prompt in prompts:
            self._check(prompt)
            assert len(prompt) == self._length, "a prompt has the wrong length"
        before = len(self._seen)
        self._seen.update(hash(prompt) for prompt in prompts)
        assert len(self._seen) == before + size, "a prompt was made twice"
        return prompts

    def _make(self, index: int) -> tuple[int, ...]:
        if self._starts is not None:
            start = self._starts[index]
            return self._text[start : start + self._length]
        return _numbered(
            index * self._share.stride + self._share.round,
            self._vocab,
            self._length,
            self._share.seed,
        )

    def _check(self, tokens: Sequence[int]) -> None:
        if max(tokens) >= self._vocab or min(tokens) < 0:
            raise UsageError(
                f"the prompt text has token {max(tokens)}, outside the model's vocabulary of "
                f"{self._vocab}; the tokenizer does not belong to this model"
            )


def held_out_text(source: ModelSource, tokens: int) -> list[int] | None:
    """About that many tokens of the zoo's held-out text, by the model's own tokenizer.

    The same for every process of a case, with a part of each novel. None for random weights.
    """
    if source.kind == "random" or source.tokenizer is None:
        return None
    from harness.model import tokenizer
    from harness.zoo import corpus

    encoder = tokenizer.load(source.tokenizer, source.shape.vocab)
    parts = [novel.held_out for novel in corpus.read()]
    share = min(1.0, tokens * _CHARACTERS_A_TOKEN / sum(len(part) for part in parts))
    return [t for part in parts for t in encoder.encode(part[: int(len(part) * share)]).ids]


def text_tokens(length: int, batch: int, rounds: int) -> int:
    """How much text a case needs: a window may start at every token of it.

    64 repetitions a round are more than the sampler ever took; encoding more text would cost every
    run, and much less would make all prompts of a small batch overlap.
    """
    return max(16384, length + 64 * batch * rounds)


def _dealt_starts(text: npt.NDArray[np.int64], length: int, share: Share) -> list[int]:
    """Starts of windows that differ in content, shuffled by the seed, dealt out by round."""
    # Equal windows have equal hashes; different ones collide with 2^-64. With x_i the tokens and
    # p odd, hence invertible modulo 2^64: hash of the window at i = p^-i * sum x_j p^j over it.
    count = len(text) - length + 1
    with np.errstate(over="ignore"):
        up, down = _powers(_PRIME, len(text)), _powers(pow(_PRIME, -1, 1 << 64), count)
        sums = np.concatenate(([np.uint64(0)], np.cumsum((text + 1).astype(np.uint64) * up)))
        hashes = (sums[length:] - sums[:count]) * down
    _, starts = np.unique(hashes, return_index=True)
    order: list[int] = sorted(starts.tolist())
    random.Random(share.seed).shuffle(order)
    return order[share.round :: share.stride]


def _powers(base: int, count: int) -> npt.NDArray[np.uint64]:
    """base^0, base^1, ... modulo 2^64."""
    factors = np.full(count, base, dtype=np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)


def _numbered(number: int, vocab: int, length: int, seed: str) -> tuple[int, ...]:
    """Random ids whose leading ones spell a scrambled `number`, so that numbers never collide."""
    digits = min(length, max(1, math.ceil(math.log(_PLENTY, max(vocab, 2)))))
    modulus = vocab**digits
    draw = random.Random(seed)
    factor = draw.randrange(modulus) | 1
    while math.gcd(factor, modulus) != 1:
        factor += 2
    scrambled = (number * factor + draw.randrange(modulus)) % modulus
    ids = []
    for _ in range(digits):
        scrambled, digit = divmod(scrambled, vocab)
        ids.append(digit)
    rest = random.Random(f"{seed}/{number}")
    return (*ids, *(rest.randrange(vocab) for _ in range(length - digits)))
