"""State dicts: read from a checkpoint, enlarged from one, or random ones for a published shape.

Names used here: "embed" [V, D], "norm" [D], "head" [V, D], and by layer "3.norm1", "3.norm2" [D],
"3.q" [N H, D], "3.k", "3.v" [K H, D], "3.o" [D, N H], "3.gate", "3.up" [F, D], "3.down" [D, F];
in some families "3.q_norm", "3.k_norm" [H] and "3.norm1_post", "3.norm2_post" [D].
"""

from __future__ import annotations

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from harness.errors import UsageError
from harness.model import families, gguf_tensors, inflate
from harness.model.inflate import Inflated
from harness.model.layout import tensors
from harness.model.source import ModelSource, weight_files
from harness.shape import ModelShape


def load(
    source: ModelSource, shape: ModelShape, dtype: torch.dtype, device: str, seed: int = 0
) -> dict[str, Tensor]:
    """The tensors of a model in the given dtype. `shape` may differ from the source's only where
    weights are random. Raises UsageError naming a missing or misshapen tensor, and InflationError
    for an enlarged model that is not what it was enlarged from."""
    if source.inflation is not None:
        return inflated(source, dtype, device).tensors
    if source.gguf is not None:
        return gguf_tensors.read(source.gguf, dtype, device)
    if source.folder is None:
        return random(shape, dtype, device, seed)
    return _read(source, shape, dtype, device)


def inflated(source: ModelSource, dtype: torch.dtype, device: str) -> Inflated:
    """The tensors of an enlarged model, and how far they are from its source's."""
    base, inflation = source.base, source.inflation
    assert base is not None
    assert inflation is not None
    small = load(base, base.shape, torch.float32, device)
    return inflate.build(source.name, inflation, small, base.shape, tensors(source.shape), dtype)


def random(shape: ModelShape, dtype: torch.dtype, device: str, seed: int = 0) -> dict[str, Tensor]:
    """Seeded weights with the spread of a trained model's: every activation stays near one."""
    generator = torch.Generator(device=device).manual_seed(seed)
    found: dict[str, Tensor] = {}
    for name, size in tensors(shape).items():
        if len(size) == 1:
            found[name] = torch.ones(size, dtype=dtype, device=device)
            continue
        spread = 1.0 if name == "embed" else size[1] ** -0.5
        # Drawn in float32, so that a seed names the same numbers in every dtype.
        drawn = torch.randn(size, generator=generator, device=device) * spread
        found[name] = drawn.to(dtype)
    return found


def _read(
    source: ModelSource, shape: ModelShape, dtype: torch.dtype, device: str
) -> dict[str, Tensor]:
    assert source.folder is not None
    family, sizes = families.of(source.family), tensors(shape)
    # Several of ours may lie in one of theirs.
    wanted: dict[str, list[str]] = {}
    for name in sizes:
        wanted.setdefault(family.name(name), []).append(name)
    found: dict[str, Tensor] = {}
    for path in weight_files(source.folder):
        try:
            with safe_open(path, framework="pt", device=device) as stream:
                for key in stream.keys():  # noqa: SIM118 - safe_open is no mapping
                    if key not in wanted:
                        continue
                    tensor = stream.get_tensor(key)
                    if not tensor.is_floating_point():
                        raise UsageError(
                            f"{path}: tensor {key} holds {tensor.dtype}; a quantised checkpoint "
                            "is not read, since its numbers mean nothing without their scales"
                        )
                    for name in wanted[key]:
                        part = family.part(name, tensor, shape)
                        if tuple(part.shape) != sizes[name]:
                            raise UsageError(
                                f"{path}: tensor {key} is {list(tensor.shape)}, "
                                f"the config asks for {list(sizes[name])}"
                            )
                        # A copy: on a CPU the tensor is a view of the mapped file, whose pages
                        # would count as the case's memory.
                        found[name] = part.to(dtype, copy=device == "cpu")
        except SafetensorError as error:
            raise UsageError(f"{path} is no readable safetensors file: {error}") from None
    missing = [key for key, ours in wanted.items() if ours[0] not in found]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(f"{source.folder} lacks the tensor {missing[0]}{more}")
    return found
