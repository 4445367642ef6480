"""A linear layer: rows of activations times one matrix that all of them share.

    out[b] = x[b] @ w

    x    [B, D]  activations, one row a token
    w    [D, F]  weights
    out  [B, F]

Reads BD + DF and writes BF numbers for 2BDF FLOPs, so that its intensity is about B FLOPs a 16-bit
number where D and F are much larger: lecture 2.2. There is no Triton form: a vendor's library is
what the stacks use, and what attention is held beside.
"""

from collections.abc import Mapping

from harness.cost import Cost, Product
from harness.kernel import KernelSpec
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call. Lecture 2.2."""
    B, D, F = (shape[name] for name in ("B", "D", "F"))
    size = DTYPE_BYTES[dtype]
    return Cost(
        flops=2.0 * B * D * F,
        weight_bytes=1.0 * D * F * size,
        activation_bytes=1.0 * B * (D + F) * size,
        launches=1.0,
        products=(Product(B, D, F),),
    )


# Llama-3-8B's and Llama-2-13B's widest layer.
_BENCH = (
    *({"B": B, "D": 4096, "F": 14336} for B in (1, 16, 64, 256)),
    {"B": 64, "D": 5120, "F": 13824},
)

SPEC = KernelSpec(
    name="linear",
    summary="a linear layer of a vendor's library, rows times one shared matrix",
    lecture="2.2",
    sources=("lecture 2.2",),
    inputs="harness.kernels.linear.inputs:make",
    reference="harness.kernels.linear.reference:linear",
    eager="harness.kernels.linear.eager:linear",
    triton=None,
    cost=cost,
    shapes={
        "test": (
            {"B": 1, "D": 2, "F": 7},
            {"B": 3, "D": 63, "F": 17},
            {"B": 5, "D": 127, "F": 250},
            {"B": 33, "D": 1000, "F": 9},
        ),
        "bench": _BENCH,
    },
)
