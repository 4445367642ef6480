"""Blocks of a paged cache joined into one piece: a sequence's entries in their order.

    out[k, i * block + s] = pool[blocks[i], k, s]

    pool    [P, K, block, H]       the last two dimensions in one piece
    blocks  [n] int64              valid block numbers, in the sequence's order
    out     [K, n * block, H]

For what reads or takes a whole sequence out: export to another store, swapping to host memory, an
attention that knows no pages.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call: reads n blocks and writes them. Nothing is computed."""
    numbers = float(shape["n"] * shape["K"] * shape["block"] * shape["H"])
    size = DTYPE_BYTES[dtype]
    return Cost(state_read_bytes=numbers * size, activation_bytes=numbers * size, launches=1.0)


def bucket(shape: Mapping[str, int]) -> str:
    """One piece of memory is as good as another of its size."""
    return f"E{shape['block'] * shape['H']}"


def _shape(n: int, K: int, block: int, H: int, strided: int = 0) -> dict[str, int]:
    """`strided` makes the pool every second head of a larger one."""
    return {"n": n, "K": K, "block": block, "H": H, "strided": strided}


_TEST = (
    _shape(1, 1, 2, 3),
    _shape(3, 2, 16, 32),
    _shape(5, 3, 7, 17),
    _shape(4, 2, 16, 64, strided=1),
    _shape(2, 1, 100, 33, strided=1),
    _shape(9, 4, 3, 20),
)

# A sequence of 8,192 tokens of Llama-3-8B and of Llama-2-13B, one layer's keys.
_BENCH = (_shape(512, 8, 16, 128), _shape(512, 40, 16, 128))

_AOT = (
    AotConfig(_shape(512, 8, 16, 128)),
    AotConfig(_shape(512, 8, 16, 64)),
    AotConfig(_shape(512, 8, 16, 128), dtype="float32"),
)

SPEC = KernelSpec(
    name="gather_blocks",
    summary="blocks of a paged cache joined into one piece, in a sequence's order",
    lecture="3.2",
    sources=("arXiv:2309.06180, section 4.5: swapping",),
    inputs="harness.kernels.gather_blocks.inputs:make",
    reference="harness.kernels.gather_blocks.reference:gather_blocks",
    eager="harness.kernels.gather_blocks.eager:gather_blocks",
    triton="harness.kernels.gather_blocks.kernel:gather_blocks",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_gather_blocks": Claims(vector_loads=("pool",))},
    # A piece is copied as copy_blocks does.
    tuning=Tuning("harness.kernels.copy_blocks.kernel:candidates", bucket),
)
