"""SwiGLU: the gated activation between the two matrix products of a feed-forward layer.

out[t] = silu(gate[t]) * up[t],   gate = gate_up[:, :F], up = gate_up[:, F:]

gate_up  [T, 2F]  one matrix product's output; any stride between rows, 1 within
out      [T, F]
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Peers, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call: reads 2TF numbers and writes TF; an exponential counts as one FLOP."""
    T, F = shape["T"], shape["F"]
    return Cost(flops=5.0 * T * F, activation_bytes=3.0 * T * F * DTYPE_BYTES[dtype], launches=1.0)


def bucket(shape: Mapping[str, int]) -> str:
    """Tiles are of one row: only whether there are rows enough to fill a device matters."""
    return "few" if shape["T"] <= 256 else "many"


def _shape(T: int, F: int, strided: int = 0) -> dict[str, int]:
    """`strided` makes gate_up every second row of a larger tensor."""
    return {"T": T, "F": F, "strided": strided}


_TEST = (
    _shape(1, 3),
    _shape(1, 768),
    _shape(3, 17),
    _shape(5, 64, strided=1),
    _shape(33, 100, strided=1),
    _shape(2, 1025),
    _shape(4, 2048),
    _shape(3, 4099),
)

# Llama-3-8B's and Llama-2-13B's feed-forward width.
_BENCH = (_shape(64, 14336), _shape(8192, 14336), _shape(8192, 13824))

_AOT = (
    AotConfig(_shape(8192, 14336)),
    AotConfig(_shape(64, 13824)),
    AotConfig(_shape(8192, 14336), dtype="float32"),
)

SPEC = KernelSpec(
    name="swiglu",
    summary="the gated activation of a feed-forward layer, silu(gate) * up",
    lecture="2.1",
    sources=("arXiv:2002.05202, equation 6",),
    inputs="harness.kernels.swiglu.inputs:make",
    reference="harness.kernels.swiglu.reference:swiglu",
    eager="harness.kernels.swiglu.eager:swiglu",
    triton="harness.kernels.swiglu.kernel:swiglu",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_swiglu": Claims(vector_loads=("gate_up",))},
    tuning=Tuning("harness.kernels.swiglu.kernel:candidates", bucket),
    peers=Peers(("compiled",), "harness.kernels.swiglu.peers:make"),
)
