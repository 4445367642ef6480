"""SwiGLU in Triton: a tile of one row's gates and the same of its values.

    out[t, f] = gate_up[t, f] * sigmoid(gate_up[t, f]) * gate_up[t, F + f]

Moves 3TF numbers. Source: arXiv:2002.05202.
"""

from collections.abc import Iterator, Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from harness.kernels.swiglu import bucket
from harness.launch import Device, described, require, target, tuned

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def _swiglu(gate_up, out, gate_up_t, F: tl.constexpr, BLOCK_F: tl.constexpr):
    """BLOCK_F outputs of one row. Grid: (T, F / BLOCK_F)."""
    t = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    mask = f < F
    row = gate_up + t * gate_up_t
    gate = tl.load(row + f, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(row + F + f, mask=mask, other=0.0).to(tl.float32)
    inner = gate * tl.sigmoid(gate) * up
    tl.store(out + t * F + f, inner.to(out.dtype.element_ty), mask=mask)


def swiglu(gate_up: Tensor, *, config: Mapping[str, int] | None = None) -> Tensor:
    """Launch the kernel; argument and result as in the package's docstring.

    Raises:
        ValueError: a tensor of another form, with its shape.
        UnfitError: a device or dtype that the kernel cannot run on.
    """
    require("swiglu", gate_up, DTYPES)
    if gate_up.dim() != 2 or gate_up.shape[1] % 2 or gate_up.stride(1) != 1:
        shape = f"{tuple(gate_up.shape)}, strides {gate_up.stride()}"
        raise ValueError(f"swiglu: gate_up must be [T, 2F], with stride 1 within rows; got {shape}")
    T, F = gate_up.shape[0], gate_up.shape[1] // 2
    if config is None:
        dtype = str(gate_up.dtype).removeprefix("torch.")
        device = target(gate_up.device)
        config = tuned("swiglu", device.arch, dtype, bucket({"T": T})) or default(device)
    out = torch.empty((T, F), dtype=gate_up.dtype, device=gate_up.device)
    if T and F:
        with torch.cuda.device_of(gate_up):
            _swiglu[(T, triton.cdiv(F, config["BLOCK_F"]))](
                gate_up, out, gate_up.stride(0), F=F, **config
            )
    return out


def default(device: Device) -> dict[str, int]:
    """8 numbers a thread: one 128-bit load of each half in 16 bits, two in float32."""
    return {"BLOCK_F": 1024, "num_warps": device.warps(128)}


def candidates(shape: Mapping[str, int], dtype: str, arch: str) -> Iterator[Mapping[str, int]]:
    """The default, then other tiles; see `harness.kernel.Tuning`."""
    del shape, dtype
    device = described(arch)
    yield default(device)
    for block in (512, 1024, 2048, 4096):
        for threads in (64, 128, 256):
            config = {"BLOCK_F": block, "num_warps": device.warps(threads)}
            if config != default(device) and 8 <= block / threads <= 32:
                yield config
