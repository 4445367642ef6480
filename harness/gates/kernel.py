"""The gate of one kernel at one shape, with nothing left to luck: fenced memory, untouched inputs.

Numbers are held to the reference in float64 as everywhere. Beside that, memory that was never
written is NaN, what lies before and behind every tensor is NaN for whoever reads it and must be
unchanged afterwards, and inputs that are no outputs must be as they were. A mask left out then
shows as a wrong number or a broken fence, where in plain memory the value next door may do; in
Triton's interpreter it shows even where the number is thrown away (`harness.gates.addresses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from harness.gates.addresses import watched
from harness.gates.poison import UNWRITTEN
from harness.gates.tolerance import check_output
from harness.kernel import KernelSpec, outputs
from harness.technique import load

# Bytes before and behind. All ones are NaN in every floating-point dtype, and -1 as an integer.
FENCE_BYTES = 4096
_FILL = 0xFF


def complaints(
    spec: KernelSpec,
    shape: Mapping[str, int],
    dtype: torch.dtype,
    candidate: Callable[..., Any],
    *,
    seed: int = 0,
) -> list[str]:
    """What there is to say against an implementation at a shape, on the CPU; [] passes.

    Args:
        candidate: takes the fields of the spec's inputs in order.
        seed: of the inputs.
    """
    return Trial(spec, shape, dtype, seed).complaints(candidate)


class Trial:
    """A kernel at one shape, for several candidates: what is right is worked out once."""

    def __init__(
        self, spec: KernelSpec, shape: Mapping[str, int], dtype: torch.dtype, seed: int = 0
    ) -> None:
        self._draw, reference = load(spec.inputs), load(spec.reference)
        self._shape, self._dtype, self._seed = shape, dtype, seed
        plain = self._inputs()
        self._exact = outputs(reference(*map(_widened, plain)))
        self._trusted = outputs(reference(*plain))

    def complaints(self, candidate: Callable[..., Any]) -> list[str]:
        """What there is to say against one; [] passes."""
        # Drawn anew: a candidate may write to what it is given.
        plain, fences = self._inputs(), Fences()
        given = fences.around(self._inputs())
        with fences, watched(fences.regions) as strayed:
            returned = outputs(candidate(*given))
        if len(returned) != len(self._exact):
            return [f"{len(returned)} outputs, the reference has {len(self._exact)}"]
        found = []
        right = zip(returned, self._trusted, self._exact, strict=True)
        for i, (one, low, high) in enumerate(right):
            found += [f"output {i}: {text}" for text in _wrong(one, low, high)]
        written = {one.untyped_storage().data_ptr() for one in returned}
        for name, before, after in zip(plain._fields, plain, given, strict=True):
            if isinstance(after, Tensor) and after.untyped_storage().data_ptr() not in written:
                same = torch.equal(_bytes(before), _bytes(after))
                found += [] if same else [f"input {name} was changed"]
        found += [] if fences.whole else ["memory beside a tensor was written to"]
        return found + strayed[:1]

    def _inputs(self) -> Any:
        return self._draw(self._shape, self._dtype, torch.Generator().manual_seed(self._seed))


def _wrong(output: Tensor, trusted: Tensor, exact: Tensor) -> list[str]:
    """What is wrong with one output."""
    results = check_output(output, trusted, exact)
    return [f"{r.name}: {r.observed} > {r.bound} {r.detail}" for r in results if not r.passed]


class Fences(TorchFunctionMode):
    """Memory with a fence around. Inside the context, unwritten tensors come in it too."""

    def __init__(self) -> None:
        super().__init__()
        self._buffers: list[Tensor] = []

    @property
    def whole(self) -> bool:
        """Whether every fence is as it was put up."""
        ends = [part for b in self._buffers for part in (b[:FENCE_BYTES], b[-FENCE_BYTES:])]
        return all(bool((end == _FILL).all()) for end in ends)

    def regions(self) -> list[tuple[int, int]]:
        """What lies between fences: first byte, and the first of the fence behind."""
        return [
            (b.data_ptr() + FENCE_BYTES, b.data_ptr() + b.numel() - FENCE_BYTES)
            for b in self._buffers
        ]

    def around(self, inputs: Any) -> Any:
        """The same inputs in fenced memory, strides and views of one memory kept."""
        moved: dict[int, Tensor] = {}
        fields = {}
        for name, value in zip(inputs._fields, inputs, strict=True):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                if storage.data_ptr() not in moved:
                    buffer = moved[storage.data_ptr()] = self._buffer(storage.nbytes())
                    everything = torch.empty(0, dtype=torch.uint8).set_(storage)
                    buffer[FENCE_BYTES : FENCE_BYTES + storage.nbytes()] = everything
                fields[name] = _view(value, moved[storage.data_ptr()], int(value.storage_offset()))
        return inputs._replace(**fields)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func not in UNWRITTEN or made.device.type != "cpu":
            return made
        return _view(made, self._buffer(made.untyped_storage().nbytes()), 0)

    def _buffer(self, size: int) -> Tensor:
        buffer = torch.full((size + 2 * FENCE_BYTES,), _FILL, dtype=torch.uint8)
        self._buffers.append(buffer)
        return buffer


def _view(like: Tensor, buffer: Tensor, offset: int) -> Tensor:
    """A tensor of the same size and strides inside a fenced buffer."""
    first = FENCE_BYTES // like.element_size() + offset
    plain = torch.zeros(0, dtype=like.dtype)
    return plain.set_(buffer.untyped_storage(), first, like.size(), like.stride())


def _bytes(tensor: Tensor) -> Tensor:
    """A tensor's numbers as bytes, so that NaN equals itself."""
    return tensor.contiguous().flatten().view(torch.uint8)


def _widened(value: Any) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if floating else value
