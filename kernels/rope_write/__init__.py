"""Rotary positions for a fused projection, and the write of its keys and values into the cache.

    q' = rotate(qkv[:, :N]),  k' = rotate(qkv[:, N:N+K]),  v = qkv[:, N+K:]
    rotate(x)[t] = x[t] * cos[t] + swap_halves(x[t]) * sin[t]
    k_pool[pages[t], :, offsets[t]] = k'[t],  v_pool likewise

One layout serves contiguous and paged caches, as in `decode_attention`: a contiguous cache is a
pool with one page a slot.

    qkv             [T, N + 2K, H]     one product's output; any strides, the last one 1
    cos, sin        [T, H]             rows of the table by position, in float32 (float64 where qkv
                                       is); sin is negated in its first half. Stride 0 between rows
                                       where all tokens stand at one position
    k_pool, v_pool  [P, K, block, H]   written in place; any strides, the last one 1
    pages, offsets  [T] int64          where row t goes; page -1: nowhere (a row that only fills up
                                       a captured batch). No two rows go to one place
    out             q' [T, N, H], k_pool, v_pool

Without pools (None, of layers that read another layer's keys) qkv is [T, N, H] and out is q'.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Peers, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call: reads T(N + 2K)H numbers and the table's rows, writes as many."""
    T, N, K, H = (shape[name] for name in ("T", "N", "K", "H"))
    size = DTYPE_BYTES[dtype]
    table = 2.0 * T * H * max(size, 4)
    return Cost(
        flops=3.0 * T * (N + K) * H,
        state_write_bytes=2.0 * T * K * H * size,
        activation_bytes=(2.0 * N + 2.0 * K) * T * H * size + table,
        launches=1.0,
    )


def bucket(shape: Mapping[str, int]) -> str:
    """Heads and their size decide the best tile, and whether rows fill a device."""
    return f"N{shape['N']}-K{shape['K']}-H{shape['H']}-{'few' if shape['T'] <= 256 else 'many'}"


def _shape(
    T: int, N: int, K: int, H: int, block: int = 0, strided: int = 0, idle: int = 0
) -> dict[str, int]:
    """`block` 0 is a contiguous cache; `idle` rows of T go nowhere; `strided` makes views."""
    sizes = {"T": T, "N": N, "K": K, "H": H}
    return sizes | {"block": block, "strided": strided, "idle": idle}


_TEST = (
    _shape(1, 1, 1, 4),
    _shape(1, 8, 2, 32, block=16),
    _shape(3, 6, 2, 18, block=1),
    _shape(5, 4, 4, 64, strided=1),
    _shape(17, 7, 7, 20, block=3, strided=1),
    _shape(4, 32, 8, 128, block=16),
    _shape(9, 10, 2, 34, block=16, idle=4),
    _shape(6, 5, 0, 16),
    _shape(7, 3, 1, 96, block=100),
    _shape(2, 66, 1, 16, strided=1, idle=1),
)

# Llama-3-8B and Llama-2-13B: a decode step and a prompt.
_BENCH = (
    _shape(64, 32, 8, 128, block=16),
    _shape(8192, 32, 8, 128, block=16),
    _shape(8192, 32, 8, 128),
    _shape(8192, 40, 40, 128),
)

_AOT = (
    AotConfig(_shape(8192, 32, 8, 128, block=16)),
    AotConfig(_shape(64, 32, 8, 128, block=16)),
    AotConfig(_shape(8192, 32, 8, 64, block=16)),
    AotConfig(_shape(8192, 40, 40, 128)),
    AotConfig(_shape(8192, 32, 0, 128)),
    AotConfig(_shape(8192, 32, 8, 128, block=16), dtype="float32"),
)

SPEC = KernelSpec(
    name="rope_write",
    summary="rotary positions, fused with the write of keys and values into the cache",
    lecture="3.1, 3.2",
    sources=("arXiv:2104.09864, section 3.4.2", "arXiv:2309.06180: paged keys and values"),
    inputs="harness.kernels.rope_write.inputs:make",
    reference="harness.kernels.rope_write.reference:rope_write",
    eager="harness.kernels.rope_write.eager:rope_write",
    triton="harness.kernels.rope_write.kernel:rope_write",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_rope_write": Claims(vector_loads=("qkv", "cos", "sin"))},
    tuning=Tuning("harness.kernels.rope_write.kernel:candidates", bucket),
    peers=Peers(("compiled",), "harness.kernels.rope_write.peers:make"),
)
