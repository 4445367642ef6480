"""Attention of a ragged batch of rows over what a cache holds: prefill, whole or in chunks.

    out[t, n] = softmax(scale * q[t, n] . k[b, :, n // (N/K)] + mask) @ v[b, :, n // (N/K)]

Sequence b gives the rows cu_seqlens[b] to cu_seqlens[b + 1]. Their keys and values are in the cache
already: row r of R stands at place lens[b] - R + r, so that lens[b] - R tokens were held before
(chunked prefill, a prompt whose beginning is shared, the verification of a draft).

One layout serves contiguous and paged caches. K and V are pools of P pages of `block` tokens,
head-major; `table[b]` lists the pages of sequence b in order. A contiguous cache is a pool with
one page a slot, whose `block` is the slot's capacity; loose entries [T, K, H] are pages of one
token each.

    q             [T, N, H]         the rows' queries, T in all
    k, v          [P, K, block, H]  the pools; any strides, the last one 1
    table         [B, pages] int32  page numbers; past a sequence's last page any number may stand
    lens          [B] int32         tokens held, the rows' own included; 0 makes all rows zeros
    scale         float             of the scores, above 0, usually H ** -0.5
    cu_seqlens    [B + 1] int32     where each sequence's rows begin, and T
    causal_block  int               a key is seen if place_k // c <= place_q // c: 1 causal, c block
                                    by block, the whole length or more: everything
    window        int               a key must be less than so many places back; 0: no limit
    softcap       float             scores s become c tanh(s / c) (arXiv:2408.00118); 0: they do not
    mask          [T, Q] float32    added to the scores of row r with its sequence's own rows
                                    0 .. R - 1 instead of causal_block and window: draft trees;
                                    minus infinity hides. None: no mask
    positions     [T] int32         of the rows, where they are not their places (draft trees): what
                                    the window is counted from. None: places
    k_scale,      [P, K, block] float32   of pools in int8 or float8_e4m3fn: what each key and value
    v_scale                               is multiplied with, a token and head. None: none
    out           [T, N, H]         a row that sees nothing is zeros

What a pool holds beyond a sequence's tokens has no effect, as long as it is finite.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Peers, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call at full length. Lecture 2.3: 4 H FLOPs a query head and pair that is seen.

    Every key and value that some row sees is read once, every q read and every output written once.
    """
    shape = complete(shape)
    B, S, N, K, H = (shape[name] for name in ("B", "S", "N", "K", "H"))
    T = shape["T"] or S
    size = DTYPE_BYTES[dtype]
    pairs = _pairs(S, T, shape["causal_block"] or 1, shape["window"], bool(shape["mask"]))
    read = min(S, T + shape["window"] - 1) if shape["window"] else S
    quantised = shape["int8"] or shape["fp8"]
    # A scale is four bytes a token and head.
    entry = H + 4 if quantised else H * size
    return Cost(
        flops=4.0 * B * N * H * pairs,
        state_read_bytes=2.0 * B * read * K * entry,
        activation_bytes=2.0 * B * T * N * H * size + (4.0 * B * T * T if shape["mask"] else 0.0),
        launches=1.0,
    )


def _pairs(S: int, T: int, causal_block: int, window: int, mask: bool) -> float:
    """Keys that the T last rows of S see, together."""
    held = S - T
    if mask:
        # All that is held, and at most half of the square of the rows: a tree is no denser.
        causal_block = 1
    pairs = 0.0
    if causal_block >= S:
        pairs = float(T) * S
    elif causal_block == 1:
        pairs = T * held + T * (T + 1) / 2
    else:
        pairs = float(sum(min(S, (p // causal_block + 1) * causal_block) for p in range(held, S)))
    if window and window < S:
        # Row p misses the keys 0 .. p - window.
        first, last = max(held, window), S - 1
        if last >= first:
            pairs -= (last - first + 1) * (first + last - 2 * window + 2) / 2
    return pairs


_OPTIONAL = (
    "T", "block", "ragged", "strided", "causal_block", "window", "softcap", "mask", "int8", "fp8",
    "low",
)  # fmt: skip


def shape_of(B: int, S: int, N: int, K: int, H: int, **others: int) -> dict[str, int]:
    """A shape of this kernel. What is left out is 0.

    T rows a sequence, 0 stands for S; `block` 0 for contiguous, one page a slot; `causal_block` 0
    for causal. `ragged` draws rows and lengths up to T and S: the second sequence is one token, the
    last none; `strided` makes q, k and v views into larger tensors; `mask` draws trees; `low` makes
    all scores lie far below zero.
    """
    return complete({"B": B, "S": S, "N": N, "K": K, "H": H} | others)


def complete(shape: Mapping[str, int]) -> dict[str, int]:
    """A shape with all its letters: those it leaves out are 0."""
    return dict(shape) | {name: shape.get(name, 0) for name in _OPTIONAL}


# Small, for the interpreter, whose tiles are 16 rows by 16 tokens. Features alone and together.
_TEST = (
    shape_of(B=1, S=1, N=1, K=1, H=16),
    shape_of(B=2, S=37, N=2, K=2, H=32),
    shape_of(B=4, S=45, T=20, N=6, K=2, H=17, block=3, ragged=1, strided=1),
    shape_of(B=1, S=70, T=9, N=8, K=2, H=64, block=16),
    shape_of(B=2, S=40, T=33, N=3, K=1, H=24, block=30),  # pages larger than a tile
    shape_of(B=3, S=41, T=41, N=2, K=1, H=16, block=16, ragged=1, causal_block=64),
    shape_of(B=2, S=40, T=26, N=2, K=2, H=16, block=5, causal_block=6),
    # A window that begins at a tile's last key.
    shape_of(B=3, S=83, T=30, N=4, K=2, H=16, block=16, ragged=1, window=23, strided=1),
    shape_of(B=1, S=20, N=2, K=1, H=16, window=1),
    shape_of(B=2, S=52, T=30, N=4, K=2, H=20, mask=1),
    shape_of(B=3, S=60, T=19, N=2, K=1, H=16, block=16, ragged=1, mask=1, window=9, softcap=5),
    shape_of(B=2, S=36, T=20, N=2, K=1, H=32, softcap=3, strided=1),
    shape_of(B=1, S=9, T=4, N=34, K=2, H=16),  # 17 heads a group: a row's tile ends within one
    shape_of(B=3, S=40, T=18, N=4, K=2, H=32, block=16, ragged=1, int8=1),
    shape_of(B=3, S=40, T=18, N=4, K=2, H=32, block=16, ragged=1, fp8=1),
    shape_of(B=6, S=3, N=2, K=1, H=16, block=1),
)

# Llama-3-8B's and Llama-2-13B's prompts, a chunk late in a long one, Mistral-7B's window, Gemma-2.
_BENCH = (
    shape_of(B=1, S=8192, N=32, K=8, H=128),
    shape_of(B=1, S=8192, N=32, K=8, H=128, block=16),
    shape_of(B=16, S=1024, N=40, K=40, H=128),
    shape_of(B=4, S=8192, T=512, N=32, K=8, H=128, block=16),
    shape_of(B=1, S=16384, N=32, K=8, H=128, window=4096),
    shape_of(B=4, S=2048, N=32, K=8, H=64),
)

_NO_FP8 = {"sm_80": "float8_e4m3fn needs sm_89"}
_AOT = (
    AotConfig(shape_of(B=1, S=8192, N=32, K=8, H=128)),
    AotConfig(shape_of(B=1, S=8192, N=32, K=8, H=64)),
    AotConfig(shape_of(B=4, S=8192, T=512, N=32, K=8, H=128, block=16)),
    AotConfig(shape_of(B=4, S=8192, T=512, N=32, K=8, H=64, block=16)),
    AotConfig(shape_of(B=1, S=8192, N=32, K=8, H=128, block=16, window=4096, softcap=50)),
    AotConfig(shape_of(B=8, S=4096, T=64, N=32, K=8, H=128, block=16, mask=1)),
    AotConfig(shape_of(B=4, S=8192, T=512, N=32, K=8, H=128, block=16, int8=1)),
    AotConfig(shape_of(B=4, S=8192, T=512, N=32, K=8, H=128, block=16, fp8=1), unsupported=_NO_FP8),
)


def bucket(shape: Mapping[str, int]) -> str:
    """What changes the best tile: head dimension, heads a group, long prompts or short chunks."""
    T = shape["T"] or shape["S"]
    return f"H{shape['H']} {'long' if T >= 1024 else 'short'}"


SPEC = KernelSpec(
    name="prefill_attention",
    summary="rows of a ragged batch against a contiguous or paged cache, causal tiles skipped",
    lecture="2.3, 3.1",
    sources=(
        "arXiv:2205.14135, arXiv:2307.08691: FlashAttention, one pass with a running maximum",
        "arXiv:2305.13245: grouped queries",
        "arXiv:2309.06180: paged keys and values",
    ),
    inputs="harness.kernels.prefill_attention.inputs:make",
    reference="harness.kernels.prefill_attention.reference:prefill_attention",
    eager="harness.kernels.prefill_attention.eager:prefill_attention",
    triton="harness.kernels.prefill_attention.kernel:prefill_attention",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_attend": Claims(vector_loads=("q", "k", "v"), tensor_cores=True)},
    tuning=Tuning("harness.kernels.prefill_attention.kernel:candidates", bucket),
    peers=Peers(
        ("flash", "cudnn", "efficient", "math", "flex"),
        "harness.kernels.prefill_attention.peers:make",
    ),
)
