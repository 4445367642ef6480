"""RMSNorm in Triton: whole rows in registers, read once and written once.

    out[t] = y[t] / sqrt(mean(y[t]^2) + eps) * weight, y = x + residual

Moves 2TD numbers, 4TD with a residual, beside the weight. Narrow rows share a program, or each
would be too little for its warps. Source: arXiv:1910.07467.
"""

from collections.abc import Iterator, Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.errors import UnfitError
from harness.kernels.rms_norm import bucket
from harness.launch import Device, described, require, target, tuned

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# A row lies in the registers of one program: 1,024 threads hold this many numbers.
MAX_WIDTH = 32768
# Numbers that one program takes at least, and a thread where there are enough for that.
PROGRAM = 1024
THREAD = 32
MIN_THREADS, MAX_THREADS = 128, 1024


@triton.jit(do_not_specialize=["T"])
def _rms_norm(
    x, residual, weight, out, total, eps, x_t, residual_t, T,
    D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """BLOCK_T rows. Grid: (T / BLOCK_T,). `residual` is None where nothing is added."""
    t = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    d = tl.arange(0, BLOCK_D)
    mask = (t < T)[:, None] & (d < D)[None, :]
    at = t[:, None] * D + d[None, :]
    row = tl.load(x + t[:, None] * x_t + d[None, :], mask=mask, other=0.0)
    if residual is not None:
        more = tl.load(residual + t[:, None] * residual_t + d[None, :], mask=mask, other=0.0)
        # Rounded as it is stored: the sum is the next layers' residual, and this its norm.
        row = (row.to(tl.float32) + more.to(tl.float32)).to(out.dtype.element_ty)
        tl.store(total + at, row, mask=mask)
    wide = row.to(tl.float32)
    inverse = 1.0 / tl.sqrt(tl.sum(wide * wide, 1) / D + eps)
    scale = tl.load(weight + d, mask=d < D, other=0.0).to(tl.float32)
    normed = wide * inverse[:, None] * scale[None, :]
    tl.store(out + at, normed.to(out.dtype.element_ty), mask=mask)


def rms_norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    eps: float,
    *,
    config: Mapping[str, int] | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Launch the kernel; arguments and result as in the package's docstring.

    Raises:
        ValueError: tensors that do not fit together, with their shapes.
        UnfitError: a device, a dtype or a width that the kernel cannot run on.
    """
    require("rms_norm", x, DTYPES)
    _check(x, residual, weight)
    T, D = x.shape
    if config is None:
        dtype = str(x.dtype).removeprefix("torch.")
        row, device = bucket({"T": T, "D": D}), target(x.device)
        config = tuned("rms_norm", device.arch, dtype, row) or default(D, device)
    out = torch.empty((T, D), dtype=x.dtype, device=x.device)
    total = None if residual is None else torch.empty_like(out)
    if T:
        with torch.cuda.device_of(x):
            _rms_norm[(triton.cdiv(T, config["BLOCK_T"]),)](
                x, residual, weight, out, total, eps, x.stride(0),
                0 if residual is None else residual.stride(0), T,
                D=D, BLOCK_D=triton.next_power_of_2(D), **config,
            )  # fmt: skip
    return out if total is None else (out, total)


def default(width: int, device: Device) -> dict[str, int]:
    """Rows a program and its warps: at least PROGRAM numbers, THREAD of them a thread."""
    block = triton.next_power_of_2(width)
    rows = max(1, PROGRAM // block)
    threads = min(MAX_THREADS, max(MIN_THREADS, rows * block // THREAD))
    return {"BLOCK_T": rows, "num_warps": device.warps(threads)}


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> Iterator[Mapping[str, int]]:
    """The default, then other numbers of rows and warps; see `harness.kernel.Tuning`."""
    del dtype
    device = described(arch)
    first = default(shape["D"], device)
    yield first
    block = triton.next_power_of_2(shape["D"])
    for rows in (1, 2, 4, 8):
        for threads in (32, 64, 128, 256, 512, 1024):
            config = {"BLOCK_T": rows, "num_warps": device.warps(threads)}
            # Below 4 numbers a thread loads are narrow; above 64 a thread's registers spill.
            if config != first and 4 <= rows * block / threads <= 64:
                yield config


def _check(x: Tensor, residual: Tensor | None, weight: Tensor) -> None:
    tensors = {"x": x, "weight": weight} | ({} if residual is None else {"residual": residual})
    shapes = ", ".join(f"{k} {tuple(t.shape)} {t.dtype} {t.stride()}" for k, t in tensors.items())
    if x.dim() != 2 or weight.shape != x.shape[1:]:
        raise ValueError(f"rms_norm: x must be [T, D] and weight [D]; got {shapes}")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"rms_norm: the residual must have the shape of x; got {shapes}")
    if len({(t.dtype, t.device) for t in tensors.values()}) > 1:
        raise ValueError(f"rms_norm: all tensors must have one dtype and device; got {shapes}")
    if any(t.stride(-1) != 1 for t in tensors.values()):
        raise ValueError(f"rms_norm: the last dimension must have stride 1; got {shapes}")
    if x.shape[1] > MAX_WIDTH:
        raise UnfitError(f"rms_norm has no kernel for rows wider than {MAX_WIDTH}; got {shapes}")
