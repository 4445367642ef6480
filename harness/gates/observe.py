"""Looking at logits while an engine runs: which sequences, and which row decides which token."""

from __future__ import annotations

import random

import torch
from torch import Tensor

# Tokens that the references of one gate may run over. Two gates a run, before and after timing, in
# two precisions each: about a second on one core for a model of four million weights.
TOKEN_BUDGET = 768


def choose(batch: int, tokens: int, seed: str, budget: int = TOKEN_BUDGET) -> list[int]:
    """Which of `batch` requests of `tokens` tokens each are judged: at least one, by the seed.

    The round is in the seed, and no engine is told it, so rounds watch others.
    """
    count = min(batch, max(1, budget // tokens))
    return sorted(random.Random(seed).sample(range(batch), count))


class LogitsLog:
    """An engine's observer that keeps the logits of chosen requests, by the token they decide."""

    def __init__(self, chosen: list[int]) -> None:
        self._rows: dict[int, dict[int, Tensor]] = {request: {} for request in chosen}

    def __call__(self, request: int, place: int, logits: Tensor) -> None:
        """Row r of logits [rows, V] decides the token at `place + r` of the whole sequence.

        A place seen again replaces what was there: a decoder looked once more.
        """
        rows = self._rows.get(request)
        if rows is None:
            return
        # A copy: the engine may reuse the memory, and a broken one may write to it later.
        for offset, row in enumerate(logits.detach().clone()):
            rows[place + offset] = row

    def of(self, request: int, first: int, count: int) -> Tensor | None:
        """Rows [count, V] that decide the tokens from place `first` on; None if one is missing."""
        rows = self._rows[request]
        if any(first + i not in rows for i in range(count)) or count == 0:
            return None
        return torch.stack([rows[first + i] for i in range(count)])
