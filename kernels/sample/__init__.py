"""One token a row of logits: temperature, then top-k, then top-p, then a draw; or the largest.

    x = (logits[r] - max(logits[r])) / temperature,  w = exp(x)
    top_k: the k largest stay, of equals the first
    top_p: in descending order a token stays while the weight before it is below p of what top-k
           left; the first always stays
    out[r] = the first token, in the vocabulary's order, up to which the weight of those that stay
             exceeds numbers[r] of their sum

    logits        [R, V]        any stride between rows, 1 within; the largest of a row is finite
    temperatures  [R] float64   0: the largest logit, of equals the first. None: of all rows
    top_k         [R] int64     0 and from V on: off. None: of all rows
    top_p         [R] float64   from 1 on: off. None: of all rows
    numbers       [R] float64   in [0, 1), what decides the draw. None without temperatures
    out           [R] int64

No generator runs along: the caller makes `numbers` a function of what they are for, as
`harness.engine.sampling` does of (seed, position, purpose). Where rounding decides, a sum that
reaches its bound to within a few of float32's, the token next to it is as good.
"""

from collections.abc import Mapping

from harness.cost import Cost
from harness.kernel import AotConfig, Claims, KernelSpec, Tuning
from harness.shape import DTYPE_BYTES


def cost(shape: Mapping[str, int], dtype: str) -> Cost:
    """Work of one call, by any algorithm: reads RV logits, an exponential and a sum of each."""
    numbers = 1.0 * shape["R"] * shape["V"]
    return Cost(flops=2.0 * numbers, activation_bytes=numbers * DTYPE_BYTES[dtype], launches=1.0)


def bucket(shape: Mapping[str, int]) -> str:
    """Rows are alike: only how long they are matters."""
    return f"V{shape['V']}"


def _shape(R: int, V: int, **others: int) -> dict[str, int]:
    """A shape of this kernel; what is left out is 0.

    `k` and `p`: some rows have a top_k and a top_p; `greedy`: no row is drawn; `ties`: few logits
    are unlike each other; `flat`: none are, and all weights are 1; `strided`: rows are parts of
    wider ones.
    """
    names = ("k", "p", "greedy", "ties", "flat", "strided")
    return {"R": R, "V": V} | {name: others.get(name, 0) for name in names}


_TEST = (
    _shape(1, 1),
    _shape(5, 40, k=1, p=1),
    _shape(3, 300, greedy=1, strided=1),
    _shape(3, 129, greedy=1, ties=1),
    _shape(6, 300),
    _shape(6, 128, flat=1, k=1),
    _shape(8, 256, flat=1, p=1),
    _shape(8, 256, flat=1, k=1, p=1),
    _shape(8, 300, k=1, strided=1),
    _shape(8, 200, p=1),
    _shape(8, 200, ties=1, k=1),
    _shape(8, 200, ties=1, p=1, strided=1),
    _shape(16, 200, ties=1, k=1, p=1),
    _shape(8, 400, k=1, p=1),
)

# Vocabularies of Llama-3 and Qwen2.5 behind a decode step.
_BENCH = (
    _shape(1, 128256, k=1, p=1),
    _shape(64, 128256, greedy=1),
    _shape(64, 128256, k=1, p=1),
    _shape(64, 151936, p=1),
)

_AOT = (
    AotConfig(_shape(64, 128256, greedy=1)),
    AotConfig(_shape(64, 128256)),
    AotConfig(_shape(64, 128256, k=1, p=1)),
    AotConfig(_shape(64, 151936, p=1)),
    AotConfig(_shape(64, 128256, k=1, p=1), dtype="float32"),
)

SPEC = KernelSpec(
    name="sample",
    summary="a token from logits: temperature, top-k, top-p, without probabilities in memory",
    lecture="2.2",
    sources=(
        "arXiv:1904.09751, section 3: top-p",
        "arXiv:1805.04833, section 5.2: top-k",
    ),
    inputs="harness.kernels.sample.inputs:make",
    reference="harness.kernels.sample.reference:sample",
    eager="harness.kernels.sample.eager:sample",
    triton="harness.kernels.sample.kernel:sample",
    cost=cost,
    shapes={"test": _TEST, "bench": _BENCH},
    aot=_AOT,
    claims={"_sample": Claims(vector_loads=("logits",))},
    tuning=Tuning("harness.kernels.sample.kernel:candidates", bucket),
)
