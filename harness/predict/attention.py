"""Time attention on this processor as the engine computes it: by its queries and by its width.

The kernels' own PyTorch forms are timed, not the product's one call inside them: views, masks and
chunks of rows are most of a short prompt's time.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from harness.kernels.decode_attention.eager import decode_attention
from harness.kernels.prefill_attention.eager import prefill_attention
from harness.kernels.prefill_attention.lengths import Lengths
from harness.predict.timing import Clock, Operation, typical

# Rows of a sequence in one attention: a step, short prompts, the rows of a chunk, many chunks.
QUERIES = (1, 16, 48, 128, 1024)
# Heads and numbers of a head. A call costs the same whatever its width.
HEADS = ((2, 16), (4, 32), (8, 64))
WIDTHS = tuple(heads * head_dim for heads, head_dim in HEADS)
_BATCH, _HELD = 8, 512  # of the steps
# What a busy moment may hide of a difference, or leave of a time.
_LEAST = 0.05


class Rates(NamedTuple):
    """FLOPs a second [queries][widths], beside reading the state; bytes of that a second."""

    flops_per_s: tuple[tuple[float, ...], ...]
    state_bytes_per_s: float


def measure(kind: torch.dtype, now: Clock) -> Rates:
    """Both rates of a dtype. The state's follow from steps that differ in their K/V heads alone."""
    prompts = [_prompt(T, *head, kind) for T in QUERIES[1:] for head in HEADS]
    steps = [_step(N, N, H, kind) for N, H in HEADS]
    groups = [(N, H) for N, H in HEADS if N % 4 == 0]
    grouped = [_step(N, N // 4, H, kind) for N, H in groups]
    seconds = np.array(typical([*prompts, *steps, *grouped], now))
    of_prompts = seconds[: len(prompts)].reshape(-1, len(HEADS))
    of_steps, of_grouped = np.split(seconds[len(prompts) :], [len(steps)])
    widths = np.array(WIDTHS, dtype=float)
    queries = np.array(QUERIES[1:], dtype=float)[:, None]
    prompt_flops = 4 * widths * queries * (queries + 1) / 2
    held = 2.0 * _BATCH * _HELD * widths * kind.itemsize
    every = of_steps[[HEADS.index(head) for head in groups]]
    # A quarter of the bytes for the same FLOPs.
    saved = np.maximum(every - of_grouped, 2 * _LEAST * every)
    moved = 0.75 * held[[HEADS.index(head) for head in groups]] / saved
    state = float(np.exp(np.log(moved).mean()))
    computed = np.maximum(of_steps - held / state, _LEAST * of_steps)
    step_flops = 4.0 * _BATCH * _HELD * widths
    rates = np.vstack([step_flops / computed, prompt_flops / of_prompts])
    return Rates(tuple(tuple(line) for line in rates.tolist()), state)


def _prompt(T: int, N: int, H: int, kind: torch.dtype) -> Operation:
    """One prompt of T tokens over itself."""
    q, (k, v) = torch.ones(T, N, H, dtype=kind), _pools(1, N, T, H, kind)
    table, lens, cu_seqlens = _integers([[0]]), _integers([T]), _integers([0, T])
    lengths = Lengths([T], [T])
    return Operation(
        partial(prefill_attention, q, k, v, table, lens, H**-0.5, cu_seqlens, lengths=lengths)
    )


def _step(N: int, K: int, H: int, kind: torch.dtype) -> Operation:
    """One row each of a batch that holds equally much."""
    q, (k, v) = torch.ones(_BATCH, N, H, dtype=kind), _pools(_BATCH, K, _HELD, H, kind)
    table, lens = _integers([[i] for i in range(_BATCH)]), _integers([_HELD] * _BATCH)
    lengths = Lengths([1] * _BATCH, [_HELD] * _BATCH)
    return Operation(partial(decode_attention, q, k, v, table, lens, H**-0.5, lengths=lengths))


def _pools(pages: int, K: int, S: int, H: int, kind: torch.dtype) -> list[torch.Tensor]:
    return [torch.ones(pages, K, S, H, dtype=kind) for _ in range(2)]


def _integers(values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)
