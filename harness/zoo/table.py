"""The one table of the zoo: what each model is, and the budget it is trained with."""

from dataclasses import dataclass
from typing import Literal

from harness.errors import unknown
from harness.zoo.tokenizer import ENTRIES


@dataclass(frozen=True)
class Architecture:
    """A decoder-only model in numbers, by the alphabet of `harness.shape`.

    `mixers` names the token mixer of each layer (see `network.MIXERS`); one name serves all layers.
    """

    layers: int  # L
    heads: int  # N
    kv_heads: int  # K
    width: int = 256  # D
    ff: int = 768  # F
    head_dim: int = 32  # H
    vocab: int = ENTRIES  # V
    max_len: int = 2048
    theta: float = 10000.0
    eps: float = 1e-5
    mixers: tuple[str, ...] = ("attention",)

    def mixer(self, layer: int) -> str:
        """The name of the mixer of one layer."""
        return self.mixers[layer % len(self.mixers)]


@dataclass(frozen=True)
class Budget:
    """How long and how a model is trained, in steps and tokens, never in seconds.

    The first steps see windows of `short` tokens, the last `long_share` of them windows of `long`
    tokens; both hold `step_tokens` tokens a step.
    """

    steps: int
    learning_rate: float
    seed: int = 0
    step_tokens: int = 1024
    short: int = 256
    long: int = 1024
    long_share: float = 0.15
    warmup: int = 200
    decay: float = 0.1
    precision: Literal["float32", "bfloat16"] = "float32"

    def window(self, step: int) -> int:
        """Tokens a window of this step, counted from 0."""
        return self.short if step < round(self.steps * (1 - self.long_share)) else self.long

    @property
    def tokens(self) -> int:
        """Tokens predicted over the whole training."""
        return self.steps * self.step_tokens


@dataclass(frozen=True)
class Entry:
    """One row of the table: a model of a family."""

    name: str
    summary: str
    architecture: Architecture
    budget: Budget


# Tuned on 300,000 tokens of small-mha, held-out nats: 1,024 tokens a step gave 4.00 at 1e-3, 3.86
# at 2e-3 and 4.51 at 4e-3; 2,048 tokens gave 4.77 at 3e-3. float32 trains faster than bfloat16
# autocast where the CPU has no bfloat16 matrix unit (3,290 against 1,970 tokens a CPU-second).
_SMALL = Budget(steps=4400, learning_rate=1.5e-3)

TABLE: tuple[Entry, ...] = (
    Entry(
        name="small-mha",
        summary="multi-head attention: 8 query heads, each with its own key/value head",
        architecture=Architecture(layers=4, heads=8, kv_heads=8),
        budget=_SMALL,
    ),
    Entry(
        name="small-gqa",
        summary="grouped-query attention: 8 query heads, 4 of them share a key/value head",
        architecture=Architecture(layers=4, heads=8, kv_heads=2),
        budget=_SMALL,
    ),
)


def names() -> list[str]:
    """Every model of the table, in its order."""
    return [entry.name for entry in TABLE]


def get(name: str) -> Entry:
    """The row of one model; UsageError for a name that is not in the table."""
    for entry in TABLE:
        if entry.name == name:
            return entry
    raise unknown("zoo model", name, names())
