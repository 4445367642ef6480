"""RMSNorm over the last dimension, with a residual that is added first where there is one.

    y = x + residual                         where there is a residual, else y = x
    out[t] = y[t] / sqrt(mean(y[t]^2) + eps) * weight

    x         [T, D]  any stride between rows, 1 within
    residual  [T, D]  or None
    weight    [D]
    eps       float
    out       [T, D]; with a residual (out, y), y rounded to x's dtype before it is normed, as a
              sum in a step of its own would be

The residual form is for where something stands between a matrix product and the sum (an all-reduce,
a quantised product without an epilogue). Where a product can add the residual itself, as the
engine's do, that moves 4 TD numbers instead of 5.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Peers, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call: reads x (and residual) and the weight, writes out (and the sum)."""
    T, D, residual = shape["T"], shape["D"], shape["residual"]
    size = DTYPE_BYTES[dtype]
    return Cost(
        flops=(4.0 + residual) * T * D,
        weight_bytes=1.0 * D * size,
        activation_bytes=(2.0 + 2.0 * residual) * T * D * size,
        launches=1.0,
    )


def bucket(shape: Mapping[str, int]) -> str:
    """Width decides the best tile, and whether there are rows enough to fill a device."""
    return f"D{shape['D']}-{'few' if shape['T'] <= 256 else 'many'}"


def _shape(T: int, D: int, residual: int = 0, strided: int = 0) -> dict[str, int]:
    """`strided` makes x, and the residual, every second row of a larger tensor."""
    return {"T": T, "D": D, "residual": residual, "strided": strided}


_TEST = (
    _shape(1, 3),
    _shape(1, 256),
    _shape(3, 17, residual=1),
    _shape(5, 64, strided=1),
    _shape(33, 100, residual=1, strided=1),
    _shape(7, 128, residual=1),
    _shape(2, 1000),
    _shape(4, 2048, residual=1),
    _shape(3, 4099),
)

# Llama-3-8B's and Llama-2-13B's width; a decode step's rows and a prompt's.
_BENCH = (
    _shape(64, 4096),
    _shape(64, 4096, residual=1),
    _shape(8192, 4096),
    _shape(8192, 4096, residual=1),
    _shape(8192, 5120),
)

_AOT = (
    *(AotConfig(_shape(8192, D, residual)) for D in (4096, 5120) for residual in (0, 1)),
    AotConfig(_shape(64, 4096)),
    AotConfig(_shape(8192, 128)),  # a norm of each head
    AotConfig(_shape(8192, 4096), dtype="float32"),
)

SPEC = KernelSpec(
    name="rms_norm",
    summary="RMSNorm over the last dimension, with the sum before it",
    lecture="2.1",
    sources=("arXiv:1910.07467, equation 4",),
    inputs="harness.kernels.rms_norm.inputs:make",
    reference="harness.kernels.rms_norm.reference:rms_norm",
    eager="harness.kernels.rms_norm.eager:rms_norm",
    triton="harness.kernels.rms_norm.kernel:rms_norm",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_rms_norm": Claims(vector_loads=("x", "residual"))},
    tuning=Tuning("harness.kernels.rms_norm.kernel:candidates", bucket),
    peers=Peers(("compiled",), "harness.kernels.rms_norm.peers:make"),
)
