"""Decode attention over latents: every head reads the one latent that a token keeps.

    out[t, n] = softmax(scale * q[t, n] . c[b] + mask) @ c[b, :, :R]

The absorbed form of multi-head latent attention (arXiv:2405.04434, 2.1.2): W_UK is folded into the
query, W_UV is applied to the result. So a token's entry is the key of all heads, R numbers of the
latent and behind them the one rotated key, and its first R numbers are the value of all heads.

    q           [T, N, E]                  E = R + rope_dim; the last dimension has stride 1
    latent      [P, 1, block, E]           pages; contiguous is one page a slot
    table       [B, pages] int32           a sequence's pages in order
    lens        [B] int32                  tokens visible, the rows' own included; 0: rows are zeros
    scale       float                      of the scores; (nope_dim + rope_dim) ** -0.5
    rank        int                        R
    cu_seqlens  [B + 1] int32 or None      where each sequence's rows begin, and T; None: one each
    causal_block, mask                     as in `harness.kernels.prefill_attention`
    out         [T, N, R]

`lengths` is what the host knows, as in `harness.kernels.decode_attention`.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call at full length. Reads BSE numbers of state once and TNE of q, writes TNR.

    The intensity is about 2TN FLOPs a number: with 128 heads a step is bound by computing.
    """
    B, S, N, R, E = (shape[name] for name in ("B", "S", "N", "rank", "entry"))
    T, size = 1 + shape["draft"], DTYPE_BYTES[dtype]
    pairs = B * (T * S - T * (T - 1) / 2)
    return Cost(
        flops=2.0 * N * (E + R) * pairs,
        state_read_bytes=float(B * S * E * size),
        activation_bytes=float(B * T * N * (E + R) * size),
        launches=2.0,
    )


def _shape(B: int, S: int, N: int, rank: int, entry: int, **others: int) -> dict[str, int]:
    """A shape of this kernel. What is left out is 0.

    `draft`, `block`, `ragged`, `strided` and `mask` as in `harness.kernels.decode_attention`.
    """
    options = dict.fromkeys(("draft", "block", "ragged", "strided", "mask"), 0)
    return {"B": B, "S": S, "N": N, "rank": rank, "entry": entry} | options | others


# Small, for the interpreter. Ranks and rotated parts that fill their tiles and that do not.
_TEST = (
    _shape(B=1, S=1, N=1, rank=16, entry=32),
    _shape(B=1, S=63, N=16, rank=32, entry=48),
    _shape(B=2, S=33, N=5, rank=24, entry=30, strided=1),
    _shape(B=3, S=65, N=3, rank=17, entry=19, ragged=1),
    _shape(B=1, S=300, N=2, rank=16, entry=20),  # more parts than are merged at once
    _shape(B=1, S=32, N=3, rank=17, entry=19, block=16),  # the last entry ends the pool
    # More heads than two tiles of rows, and one token more than whole tiles a part.
    _shape(B=8, S=65, N=35, rank=16, entry=24),
    _shape(B=4, S=7, N=2, rank=20, entry=28, block=1, ragged=1),
    _shape(B=3, S=50, N=4, rank=64, entry=72, block=3, ragged=1, strided=1),
    _shape(B=3, S=60, N=4, rank=32, entry=48, block=16, ragged=1),
    _shape(B=2, S=90, N=2, rank=16, entry=24, block=40, ragged=1),  # pages larger than a tile
    _shape(B=3, S=60, N=3, rank=16, entry=24, block=16, draft=4, ragged=1),
    _shape(B=1, S=40, N=8, rank=16, entry=24, draft=7),
    # One part: nobody passes over what a row that sees nothing leaves.
    _shape(B=3, S=13, N=4, rank=16, entry=24, draft=5, mask=1, ragged=1),
    _shape(B=3, S=50, N=4, rank=32, entry=40, block=16, draft=5, mask=1, ragged=1),
)

# DeepSeek-V2's and V3's entry (arXiv:2405.04434, 3.1.2): 128 heads of one device, 16 of eight.
_DEEPSEEK = {"rank": 512, "entry": 576}
_BENCH = (
    _shape(B=1, S=8192, N=128, block=64, **_DEEPSEEK),
    _shape(B=64, S=8192, N=16, block=64, **_DEEPSEEK),
    _shape(B=64, S=8192, N=128, block=64, **_DEEPSEEK),
    _shape(B=16, S=8192, N=16, **_DEEPSEEK),
    _shape(B=16, S=8192, N=128, block=64, draft=1, **_DEEPSEEK),
)

_AOT = (
    AotConfig(_shape(B=64, S=8192, N=128, block=64, **_DEEPSEEK), options={"splits": 1}),
    AotConfig(_shape(B=64, S=8192, N=16, block=64, **_DEEPSEEK), options={"splits": 4}),
    AotConfig(_shape(B=16, S=8192, N=16, **_DEEPSEEK), options={"splits": 4}),
    AotConfig(_shape(B=16, S=8192, N=128, block=16, **_DEEPSEEK), options={"splits": 4}),
    AotConfig(
        _shape(B=16, S=8192, N=16, block=64, draft=7, mask=1, **_DEEPSEEK), options={"splits": 4}
    ),
)


def bucket(shape: Mapping[str, int]) -> str:
    """What changes the best tile: the size of an entry, and how many rows share a read of it."""
    packed = (1 + shape["draft"]) * shape["N"]
    return f"rank{shape['rank']} entry{shape['entry']} rows{16 if packed <= 16 else 128}"


SPEC = KernelSpec(
    name="mla_decode",
    summary="one to eight rows a sequence against latents that all heads share",
    lecture="5.2",
    sources=(
        "arXiv:2405.04434, 2.1.2: the absorbed form",
        "Flash-Decoding, Dao et al. 2023: split over the length, merge by log-sum-exp",
        "github.com/deepseek-ai/FlashMLA: the value is the latent that was loaded as the key",
    ),
    inputs="harness.kernels.mla_decode.inputs:make",
    reference="harness.kernels.mla_decode.reference:mla_decode",
    eager="harness.kernels.mla_decode.eager:mla_decode",
    triton="harness.kernels.mla_decode.kernel:mla_decode",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={
        "_attend": Claims(vector_loads=("latent",), tensor_cores=True),
        "_merge": Claims(vector_loads=("partial",)),
    },
    tuning=Tuning("harness.kernels.mla_decode.kernel:candidates", bucket),
)
