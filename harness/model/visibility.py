"""Which keys each row of a sequence sees, by positions, trees and windows."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.batch import RaggedBatch


def visible(batch: RaggedBatch, i: int, start: int, window: int | None) -> Tensor | bool:
    """Which keys each row of sequence i sees: [T, S - start] bool, True: causal, False: all.

    Decided from host numbers alone: asking a device tensor would wait for the device.
    """
    T, context, length = batch.query_len(i), batch.context_lens[i], batch.lens[i]
    plain = batch.qq_masks[i] is None and batch.causal_block == 1
    windowed = window is not None and length - start > window
    if plain and not windowed:
        if T == 1:
            return False
        if context == 0 and start == 0:
            return True
    key = ("visible", i, start, window)
    mask: Tensor | None = batch.scratch.get(key)
    if mask is None:
        mask = batch.scratch[key] = seen(batch, i, start, window)
    return mask


def seen(batch: RaggedBatch, i: int, start: int, window: int | None) -> Tensor:
    """The same as [T, S - start] bool, whatever it is; from the context's length on, own rows."""
    positions = torch.tensor(batch.positions[batch.rows(i)], device=batch.device)
    context, block = batch.context_lens[i], batch.causal_block
    held = torch.arange(start, context, device=batch.device)
    keys = torch.cat([held, positions])
    mask = keys[None] // block <= positions[:, None] // block  # [T, S - start]
    own = batch.qq_masks[i]
    if own is not None:
        mask[:, len(held) :] = own.to(batch.device)
    if window is not None:
        mask &= positions[:, None] - keys[None] < window
    return mask
