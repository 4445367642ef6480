"""Inputs of decode attention: those of attention over pages, with few rows a sequence."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from harness.kernels.prefill_attention import complete
from harness.kernels.prefill_attention.inputs import STALE, Inputs, draw, number

__all__ = ["STALE", "Inputs", "make"]


def make(
    shape: Mapping[str, int], dtype: torch.dtype, generator: torch.Generator, device: str = "cpu"
) -> Inputs:
    """Draw inputs of a shape of the spec: shuffled pages, stale entries, ragged rows and lengths.

    On device "meta" nothing is drawn. Without a draft there is no `cu_seqlens`.
    """
    shape = complete(shape)
    B, S, draft = shape["B"], shape["S"], shape.get("draft", 0)
    rows, lens = [1 + draft] * B, [S] * B
    if shape["ragged"] and device != "meta":
        for b in range(1, B):
            rows[b] = number(generator, 1, 1 + draft)
            lens[b] = rows[b] + number(generator, 0, S - rows[b])
        # A row of padding: a sequence that holds nothing.
        if B > 1:
            rows[-1], lens[-1] = 1, 0
        # A sequence of one token.
        if B > 2:
            rows[1] = lens[1] = 1
    inputs = draw(shape, rows, lens, dtype, generator, device)
    return inputs if draft else inputs._replace(cu_seqlens=None)
