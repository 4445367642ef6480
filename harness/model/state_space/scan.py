"""The recurrence h_t = a_t h_(t-1) + b_t over many tokens at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from harness.model.state_space.sizes import CHUNK


def chunks(decay: Tensor, entry: Tensor, start: Tensor) -> Iterator[tuple[int, Tensor]]:
    """States after every token, a chunk at a time: (first token, states [C, I, N]).

    Args:
        decay: a, [T, I, N], each between 0 and 1.
        entry: b, [T, I, N].
        start: the state before the first token, [I, N].

    Within a chunk the pairs (a, b) are combined in doubling strides (the scan of Hillis and Steele,
    CACM 29(12), 1986): (a, b) after (a', b') is (a a', a b' + b). No logarithm, no division: decays
    that underflow stay right. From chunk to chunk the last state is passed on.
    """
    for first in range(0, len(decay), CHUNK):
        a, b = decay[first : first + CHUNK].clone(), entry[first : first + CHUNK].clone()
        b[0] += a[0] * start
        stride = 1
        while stride < len(a):
            # The right-hand sides are whole before either side is written.
            b = torch.cat([b[:stride], b[stride:] + a[stride:] * b[:-stride]])
            a = torch.cat([a[:stride], a[stride:] * a[:-stride]])
            stride *= 2
        start = b[-1]
        yield first, b
