"""copy_blocks in Triton: pieces of memory copied without an intermediate tensor.

Moves 2 n K block H numbers. Source: arXiv:2309.06180, sections 4.4 and 4.5.
"""

from collections.abc import Iterator, Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.copy_blocks import bucket
from harness.launch import Device, described, require, tuned
from harness.launch import target as device_of

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.float8_e4m3fn)
# Bytes that a program copies: two 128-bit pieces a thread.
TILE_BYTES, THREADS = 4096, 128


@triton.jit
def _copy_blocks(
    source, target, sources, targets, source_p, target_p,
    PIECE: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """BLOCK_E numbers of one block. Grid: (n, PIECE / BLOCK_E)."""
    i = tl.program_id(0)
    e = tl.program_id(1) * BLOCK_E + tl.arange(0, BLOCK_E)
    mask = e < PIECE
    source_block, target_block = tl.load(sources + i), tl.load(targets + i)
    piece = tl.load(source + source_block * source_p + e, mask=mask)
    tl.store(target + target_block * target_p + e, piece, mask=mask)


def copy_blocks(
    source: Tensor,
    target: Tensor,
    sources: Tensor,
    targets: Tensor,
    *,
    config: Mapping[str, int] | None = None,
) -> Tensor:
    """Launch the kernel; arguments and result as in the package's docstring.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device or dtype that the kernel cannot run on.
    """
    require("copy_blocks", source, DTYPES)
    _check(source, target, sources, targets)
    n, piece = len(sources), source[0].numel()
    if config is None:
        dtype = str(source.dtype).removeprefix("torch.")
        row = bucket(dict(zip(("K", "block", "H"), source.shape[1:], strict=True)))
        device = device_of(source.device)
        config = tuned("copy_blocks", device.arch, dtype, row) or default(
            source.element_size(), device
        )
    if n and piece:
        with torch.cuda.device_of(source):
            _copy_blocks[(n, triton.cdiv(piece, config["BLOCK_E"]))](
                source, target, sources, targets, source.stride(0), target.stride(0),
                PIECE=piece, **config,
            )  # fmt: skip
    return target


def default(element_bytes: int, device: Device) -> dict[str, int]:
    """TILE_BYTES a program."""
    return {"BLOCK_E": TILE_BYTES // element_bytes, "num_warps": device.warps(THREADS)}


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> Iterator[Mapping[str, int]]:
    """The default, then other tiles; see `harness.kernel.Tuning`."""
    del shape
    device = described(arch)
    size = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    first = default(size, device)
    yield first
    for tile in (1024, 2048, 4096, 8192, 16384, 32768):
        for threads in (32, 64, 128, 256):
            config = {"BLOCK_E": tile // size, "num_warps": device.warps(threads)}
            if config != first and 16 <= tile / threads <= 128:
                yield config


def _check(source: Tensor, target: Tensor, sources: Tensor, targets: Tensor) -> None:
    shapes = ", ".join(
        f"{name} {tuple(t.shape)} {t.dtype} strides {t.stride()}"
        for name, t in (
            ("source", source), ("target", target), ("sources", sources), ("targets", targets)
        )
    )  # fmt: skip
    if source.dim() != 4 or source.shape[1:] != target.shape[1:] or source.dtype != target.dtype:
        raise ValueError(
            f"copy_blocks: both pools must be [P, K, block, H] of a dtype; got {shapes}"
        )
    if not source[:1].is_contiguous() or not target[:1].is_contiguous():
        raise ValueError(f"copy_blocks: a block must be one piece of memory; got {shapes}")
    if not sources.shape == targets.shape == sources.shape[:1]:
        raise ValueError(f"copy_blocks: sources and targets must be [n]; got {shapes}")
    if not sources.dtype == targets.dtype == torch.int64:
        raise ValueError(f"copy_blocks: sources and targets must be int64; got {shapes}")
