"""What a layer is given when it is built: weights by name, the factories, shared tables."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from harness.errors import UsageError
from harness.kernel import implementation
from harness.model.linear import Linear
from harness.model.norm import RMSNorm
from harness.model.rope import RopeTable, RopeWrite, frequencies
from harness.plan import EnginePlan
from harness.shape import ModelShape, RopeScaling


class Parts:
    """Hands out what layers need, and records what was handed out."""

    def __init__(
        self, plan: EnginePlan, weights: dict[str, Tensor], dtype: torch.dtype, device: str
    ) -> None:
        self.shape: ModelShape = plan.shape
        self.implementations: dict[str, str] = {}
        self.weights_bytes = 0
        self._plan = plan
        self._weights = weights
        self.dtype = dtype
        self.device = device
        self._rope: dict[tuple[int, float, RopeScaling | None], RopeTable] = {}
        self._counted: set[str] = set()

    def weight(self, name: str) -> Tensor:
        """The tensor of that name, as loaded; a missing one is an error that names it."""
        if name not in self._weights:
            raise UsageError(f"the checkpoint has no tensor for '{name}'")
        return self._weights[name]

    def vector(self, name: str) -> Tensor:
        """A weight that is used as it is (norms, the embedding), counted in the weights' bytes."""
        tensor = self.weight(name)
        if name not in self._counted:
            self._counted.add(name)
            self.weights_bytes += tensor.numel() * tensor.element_size()
        return tensor

    def norm(self, name: str) -> RMSNorm:
        """The RMSNorm with the weight of that name."""
        return RMSNorm(self.vector(name), self.shape.eps, self.kernel("rms_norm"))

    def linear(self, name: str, weight: Tensor) -> Linear:
        """A linear layer by the weights slot; its bytes count unless they are the embedding's."""
        self.only_torch("linear")
        layer: Linear = self._plan.linear.make(name, weight)
        shared = (
            name == "head" and self.shape.tied and layer.dense().data_ptr() == weight.data_ptr()
        )
        if not shared:
            self.weights_bytes += layer.stored_bytes
        return layer

    def rope_table(self, dim: int, layer: int) -> RopeTable:
        """The rotary table of a layer for that dimension; one for all layers that turn alike."""
        key = dim, *self.shape.rotation(layer)
        if key not in self._rope:
            length = self._plan.limits.max_tokens + self._plan.limits.lookahead
            self._rope[key] = RopeTable(frequencies(*key), length, self.dtype, self.device)
        return self._rope[key]

    def rope_write(self) -> RopeWrite:
        """The rotation of a fused projection, with the write of its keys and values."""
        return RopeWrite(self.shape.kv_heads, self.kernel("rope_write"))

    def only_torch(self, *operations: str) -> None:
        """Record operations without a kernel of their own: torch runs them on any backend."""
        self.implementations |= dict.fromkeys(operations, "torch")

    def operation(self, kernel: str) -> Callable[..., Any]:
        """The kernel of that name for the plan's backend; which one it is gets recorded."""
        spec = import_module(f"harness.kernels.{kernel}").SPEC
        chosen, function = implementation(spec, self._plan.backend)
        self.implementations[kernel] = chosen
        return function

    def kernel(self, name: str) -> Callable[..., Any] | None:
        """The Triton kernel of that name, or None where torch runs the operation; recorded too."""
        function = self.operation(name)
        return function if self.implementations[name] == "triton" else None
