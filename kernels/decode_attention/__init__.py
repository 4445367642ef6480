"""Decode attention: one new token a sequence against everything its cache holds.

    out[b, n] = softmax(scale * q[b, n] . k[b, :, n // (N/K)]) @ v[b, :, n // (N/K)]

One layout serves contiguous and paged caches. K and V are pools of P pages of `block` tokens,
head-major; `table[b]` lists the pages of sequence b in order. A contiguous cache is a pool with
one page a slot, whose `block` is the slot's capacity.

    q      [B, N, H]         the new token's queries
    k, v   [P, K, block, H]  the pools; any strides, the last one 1
    table  [B, pages] int32  page numbers; past a sequence's last page any valid number may stand
    lens   [B] int32         tokens visible, the query's own included; 0 gives zeros
    scale  float             of the scores, usually H ** -0.5
    out    [B, N, H]

What a pool holds beyond a sequence's tokens has no effect, as long as it is finite. The eager and
Triton forms take `max_len`, the largest of `lens` where the host knows it, so that nobody has to
wait for the device to tell.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call at full length. Reads 2BSKH numbers of state and BNH of q, writes BNH.

    Grouped queries share one read of K and V, so the intensity is about 2(N/K) FLOPs a number:
    lecture 2.3's ST/(S+T) with T = N/K query rows.
    """
    B, S, N, K, H = (shape[name] for name in ("B", "S", "N", "K", "H"))
    size = DTYPE_BYTES[dtype]
    return Cost(
        flops=4.0 * B * N * S * H,
        state_read_bytes=2.0 * B * S * K * H * size,
        activation_bytes=2.0 * B * N * H * size,
        launches=2.0,
    )


def _shape(
    B: int, S: int, N: int, K: int, H: int, block: int = 0, ragged: int = 0, strided: int = 0
) -> dict[str, int]:
    """A shape of this kernel; `block` 0 stands for contiguous, one page a slot.

    `ragged` draws lengths between 0 and S, the first is S, the last 0; `strided` makes q, k and v
    views into larger tensors.
    """
    return {"B": B, "S": S, "N": N, "K": K, "H": H} | {
        "block": block, "ragged": ragged, "strided": strided
    }  # fmt: skip


_TEST = (
    _shape(B=1, S=1, N=1, K=1, H=16),
    _shape(B=1, S=63, N=4, K=4, H=32),
    _shape(B=3, S=127, N=6, K=2, H=17, ragged=1),
    _shape(B=2, S=130, N=8, K=1, H=64, strided=1),
    _shape(B=1, S=300, N=2, K=1, H=128),  # more parts than are merged at once
    _shape(B=1, S=1000, N=2, K=1, H=128),
    _shape(B=1, S=40, N=34, K=2, H=24),  # 17 heads a group
    _shape(B=1, S=21, N=66, K=1, H=16),  # more heads a group than one tile of rows
    _shape(B=5, S=7, N=3, K=3, H=20, block=1, ragged=1),
    _shape(B=4, S=50, N=10, K=2, H=33, block=3, ragged=1, strided=1),
    _shape(B=3, S=100, N=8, K=2, H=64, block=16, ragged=1),
    _shape(B=2, S=33, N=7, K=7, H=48, block=16, strided=1),
    _shape(B=2, S=250, N=4, K=2, H=16, block=100, ragged=1),  # pages larger than a tile
)

# Llama-3-8B, Llama-2-13B and Llama-3.2-1B at the lecture's and the literature's sizes.
_BENCH = (
    _shape(B=1, S=8192, N=32, K=8, H=128, block=16),
    _shape(B=16, S=8192, N=32, K=8, H=128, block=16),
    _shape(B=64, S=8192, N=32, K=8, H=128, block=16),
    _shape(B=64, S=8192, N=32, K=8, H=128),
    _shape(B=64, S=1024, N=40, K=40, H=128),
    _shape(B=64, S=1024, N=32, K=8, H=64, block=16),
)

# Each shape as it is launched for a batch that fills the device, and split for a small one.
_AOT = tuple(
    AotConfig(_shape(B=64, S=8192, N=32, K=8, H=H, block=block), options={"splits": splits})
    for H in (128, 64)
    for block in (0, 16)
    for splits in (1, 4)
)

SPEC = KernelSpec(
    name="decode_attention",
    summary="one query token a sequence against a contiguous or paged cache, split over its length",
    lecture="2.3, 3.2",
    sources=(
        "Flash-Decoding, Dao et al. 2023: split over the length, merge by log-sum-exp",
        "arXiv:2305.13245: grouped queries",
        "arXiv:2309.06180: paged keys and values",
    ),
    inputs="harness.kernels.decode_attention.inputs:make",
    reference="harness.kernels.decode_attention.reference:decode_attention",
    eager="harness.kernels.decode_attention.eager:decode_attention",
    triton="harness.kernels.decode_attention.kernel:decode_attention",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={
        "_attend": Claims(vector_loads=("k", "v"), tensor_cores=True),
        "_merge": Claims(vector_loads=("partial",)),
    },
)
