"""Blocks copied from one pool to another, or within one: copy-on-write, and swapping back in.

target[targets[i]] = source[sources[i]]

source, target   [P, K, block, H], each block in one piece; may be one pool
sources, targets [n] int64  valid block numbers. No block of `targets` stands there twice, and
                            none is also a source where both pools are one
out              target, written in place
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call: reads n blocks and writes them. Nothing is computed."""
    numbers = float(shape["n"] * shape["K"] * shape["block"] * shape["H"])
    size = DTYPE_BYTES[dtype]
    return Cost(state_read_bytes=numbers * size, state_write_bytes=numbers * size, launches=1.0)


def bucket(shape: Mapping[str, int]) -> str:
    """One piece of memory is as good as another of its size."""
    return f"E{shape['K'] * shape['block'] * shape['H']}"


def _shape(n: int, K: int, block: int, H: int, one: int = 0) -> dict[str, int]:
    """`one`: source and target are one pool, as for copy-on-write."""
    return {"n": n, "K": K, "block": block, "H": H, "one": one}


_TEST = (
    _shape(1, 1, 2, 3),
    _shape(3, 2, 16, 32, one=1),
    _shape(5, 3, 7, 17),
    _shape(4, 2, 16, 64, one=1),
    _shape(2, 1, 100, 33),
    _shape(9, 4, 3, 20, one=1),
)

# Blocks of 64 sequences that were forked, and a swapped sequence of 8,192 tokens: Llama-3-8B.
_BENCH = (_shape(64, 8, 16, 128, one=1), _shape(512, 8, 16, 128))

_AOT = (
    AotConfig(_shape(64, 8, 16, 128, one=1)),
    AotConfig(_shape(512, 8, 16, 64)),
    AotConfig(_shape(64, 8, 16, 128), dtype="float32"),
)

SPEC = KernelSpec(
    name="copy_blocks",
    summary="blocks of a paged cache copied within a pool or to another",
    lecture="3.2",
    sources=("arXiv:2309.06180, sections 4.4 and 4.5: copy-on-write, swapping",),
    inputs="harness.kernels.copy_blocks.inputs:make",
    reference="harness.kernels.copy_blocks.reference:copy_blocks",
    eager="harness.kernels.copy_blocks.eager:copy_blocks",
    triton="harness.kernels.copy_blocks.kernel:copy_blocks",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_copy_blocks": Claims(vector_loads=("source",))},
    tuning=Tuning("harness.kernels.copy_blocks.kernel:candidates", bucket),
)
