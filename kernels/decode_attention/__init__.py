"""Decode attention: each sequence's last token, or a short draft, against what its cache holds.

    out[t, n] = softmax(scale * q[t, n] . k[b, :, n // (N/K)] + mask) @ v[b, :, n // (N/K)]

Arguments, their shapes and what they mean are those of `harness.kernels.prefill_attention`, which
see; contiguous and paged caches have one layout. Here each sequence gives few rows, 1 to MAX_ROWS,
so that reading K and V is all the work: the length of each sequence is shared out among as many
programs as keep the device busy, and what they found is merged.

    q           [T, N, H]        without cu_seqlens one row a sequence, T = B
    cu_seqlens  [B + 1] or None  where each sequence's rows begin, and T
    lens        [B] int32        tokens visible, the rows' own included; 0 makes all rows zeros
    out         [T, N, H]

The eager and Triton forms take `lengths`, rows and lengths where the host knows them, so that
nobody has to wait for the device to tell. Without it the launch depends on shapes and capacities
alone: a CUDA graph that captured it serves all lengths.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Peers, Tuning
from harness.kernels.prefill_attention import cost as attention_cost
from harness.kernels.prefill_attention import shape_of

# Rows a sequence at most: with the heads of a group they should fit one tile of a matrix product.
MAX_ROWS = 8


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call at full length. Reads 2BSKH numbers of state and BTNH of q, writes BTNH.

    Grouped queries and the rows of a draft share one read of K and V, so the intensity is about
    2T(N/K) FLOPs a number: lecture 2.3's ST/(S+T) with N/K query rows a token.
    """
    rows = {**shape, "T": 1 + shape.get("draft", 0)}
    # The second launch merges parts.
    return attention_cost(rows, dtype) + Cost(launches=1.0)


def _shape(B: int, S: int, N: int, K: int, H: int, **others: int) -> dict[str, int]:
    """A shape of this kernel. What is left out is 0.

    `draft` rows a sequence beside the last certain one; `block` 0 stands for contiguous, one page a
    slot. `ragged` draws rows and lengths; the first sequence has S, the last holds nothing.
    """
    shape = {"B": B, "S": S, "draft": 0} | shape_of(B, S, N, K, H, **others)
    del shape["T"], shape["causal_block"]
    return shape


# Small, for the interpreter, which splits what is longer than a tile or two.
_TEST = (
    _shape(B=1, S=1, N=1, K=1, H=16),
    _shape(B=1, S=61, N=2, K=2, H=24),  # a last part that is full of tokens, and no tile of numbers
    _shape(B=3, S=65, N=6, K=2, H=17, ragged=1),
    _shape(B=2, S=50, N=4, K=1, H=64, strided=1),
    _shape(B=2, S=13, N=2, K=1, H=16, strided=1),  # one part
    _shape(B=2, S=40, N=2, K=1, H=16, low=1),
    _shape(B=8, S=65, N=3, K=3, H=16),  # one token more than whole tiles a part
    _shape(B=1, S=600, N=2, K=1, H=120),  # more parts than are merged at once, none of them empty
    _shape(B=1, S=30, N=34, K=2, H=24),  # 17 heads a group
    _shape(B=1, S=21, N=66, K=1, H=16),  # more heads a group than one tile of rows
    _shape(B=4, S=7, N=3, K=3, H=20, block=1, ragged=1),
    _shape(B=3, S=50, N=4, K=2, H=33, block=3, ragged=1, strided=1),
    _shape(B=3, S=60, N=4, K=2, H=64, block=16, ragged=1),
    _shape(B=2, S=90, N=2, K=1, H=16, block=40, ragged=1),  # pages larger than a tile
    _shape(B=3, S=60, N=6, K=2, H=32, block=16, draft=4, ragged=1),
    _shape(B=1, S=40, N=8, K=1, H=16, draft=7),
    _shape(B=3, S=20, N=9, K=1, H=16, draft=7, ragged=1),  # a tile of rows that few sequences need
    _shape(B=3, S=50, N=4, K=2, H=32, block=16, draft=5, mask=1, ragged=1),
    _shape(B=3, S=90, N=2, K=1, H=16, block=16, window=43, ragged=1),  # from a tile's last key on
    _shape(B=2, S=20, N=2, K=1, H=16, window=1),
    _shape(B=3, S=60, N=2, K=1, H=16, draft=6, mask=1, window=3, softcap=1, ragged=1),
    _shape(B=3, S=50, N=2, K=1, H=32, block=16, ragged=1, int8=1),
    _shape(B=2, S=50, N=4, K=2, H=32, block=16, draft=2, ragged=1, fp8=1),
)

# Llama-3-8B, Llama-2-13B and Llama-3.2-1B at the lecture's and the literature's sizes; drafts.
_BENCH = (
    _shape(B=1, S=8192, N=32, K=8, H=128, block=16),
    _shape(B=16, S=8192, N=32, K=8, H=128, block=16),
    _shape(B=64, S=8192, N=32, K=8, H=128, block=16),
    _shape(B=64, S=8192, N=32, K=8, H=128),
    _shape(B=64, S=1024, N=40, K=40, H=128),
    _shape(B=64, S=1024, N=32, K=8, H=64, block=16),
    _shape(B=16, S=8192, N=32, K=8, H=128, block=16, draft=4),
    _shape(B=64, S=8192, N=32, K=8, H=128, block=16, int8=1),
)

# As launched for a batch that fills the device (1), and split for a small one.
_LLAMA = {"B": 64, "S": 8192, "N": 32, "K": 8}
_AOT = (
    AotConfig(_shape(**_LLAMA, H=128), options={"splits": 1}),
    AotConfig(_shape(**_LLAMA, H=128, block=16), options={"splits": 4}),
    AotConfig(_shape(**_LLAMA, H=64), options={"splits": 4}),
    AotConfig(_shape(**_LLAMA, H=64, block=16), options={"splits": 1}),
    AotConfig(_shape(**_LLAMA, H=128, block=16, draft=4, mask=1), options={"splits": 4}),
    AotConfig(
        _shape(**_LLAMA, H=128, block=16, draft=7, window=4096, softcap=50), options={"splits": 4}
    ),
    AotConfig(_shape(**_LLAMA, H=128, block=16, int8=1), options={"splits": 4}),
    AotConfig(
        _shape(**_LLAMA, H=128, block=16, fp8=1),
        options={"splits": 4},
        unsupported={"sm_80": "float8_e4m3fn needs sm_89"},
    ),
)


def bucket(shape: Mapping[str, int]) -> str:
    """What changes the best tile: head dimension, packed rows, and how wide an entry is."""
    packed = (1 + shape["draft"]) * shape["N"] // shape["K"]
    stored = "int8 or fp8" if shape["int8"] or shape["fp8"] else "plain"
    return f"H{shape['H']} rows{16 if packed <= 16 else 64} {stored}"


SPEC = KernelSpec(
    name="decode_attention",
    summary="one to eight rows a sequence against a cache, split over its length",
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
    tuning=Tuning("harness.kernels.decode_attention.kernel:candidates", bucket),
    peers=Peers(
        ("flash", "cudnn", "efficient", "math", "flex"),
        "harness.kernels.prefill_attention.peers:make",
    ),
)
