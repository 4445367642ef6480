"""The mixer: the convolution's output is added to what attention reads."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from harness.model.attention import Attention
from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.convolution import convolved, windows
from harness.shape import ModelShape, SequenceState, TokenState
from harness.techniques.conv import conv_width


class ConvAttention:
    """One layer. It keeps keys and values a token, and the convolution's last inputs a sequence."""

    def __init__(self, parts: Parts, layer: int, group: tuple[int, int], owner: bool) -> None:
        assert owner, "planning refuses shared layers behind a convolution"
        tokens, self._group = group
        self._attention = Attention(parts, layer, tokens, owner)
        self._kernel = parts.vector(f"{layer}.conv")  # [D, k]
        parts.only_torch("causal_conv1d")

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> tuple[TokenState, SequenceState]:
        """Attention's entries, and the convolution's last inputs [D, k - 1]."""
        inputs = (("conv", (shape.width, conv_width(shape) - 1)),)
        return Attention.state(shape, layers), SequenceState(inputs, layers)

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        """Attention's, and the kernel."""
        return {**Attention.weights(shape, owner), "conv": (shape.width, conv_width(shape))}

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + mixed, [T, D]."""
        states, group, k = store.recurrent, self._group, self._kernel.shape[1]
        held = [states.load(group, i)["conv"] for i in range(batch.size)]
        seen = windows(x, batch, held)  # [D, k-1+T] each
        for i, window in enumerate(seen):
            for row in states.wanted(i):
                states.save(group, i, row, {"conv": window[:, row + 1 : row + k].clone()})
        return self._attention(x + convolved(seen, batch, self._kernel), residual, batch, store)
