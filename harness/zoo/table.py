"""The records of the zoo's one table: what a model is, and the budget it is trained with."""

from dataclasses import dataclass
from typing import Literal

from harness.zoo.tasks import Task
from harness.zoo.tokenizer import ENTRIES

Storage = Literal["float32", "float16"]
# The class of HuggingFace that most models here are.
LLAMA = "LlamaForCausalLM"


@dataclass(frozen=True)
class Architecture:
    """A decoder-only model in numbers, by the alphabet of `harness.shape`.

    `mixers` names the token mixer of each layer (see `network.MIXERS`); one name serves all layers.
    With `ff` 0 the layers have no feed-forward.
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

    @property
    def checkpoint_class(self) -> str | None:
        """What a config calls the model: HuggingFace's class where it has one, else the project's
        own; None for layers that the engine does not have."""
        if set(self.mixers) == {"conv-attention"}:
            return "ConvAttentionForCausalLM"
        if set(self.mixers) == {"attention"}:
            return LLAMA if self.ff else "AttentionOnlyForCausalLM"
        return None


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
    initial_std: float = 0.02

    def window(self, step: int) -> int:
        """Tokens a window of this step, counted from 0."""
        return self.short if step < round(self.steps * (1 - self.long_share)) else self.long

    @property
    def tokens(self) -> int:
        """Tokens predicted over the whole training."""
        return self.steps * self.step_tokens


@dataclass(frozen=True)
class Start:
    """Another row's weights as the beginning of a training.

    `layers` says for each layer of this model which layer of the other one it is; None is a new
    layer that adds nothing at first.
    """

    model: str
    layers: tuple[int | None, ...]


@dataclass(frozen=True)
class Teacher:
    """A trained row to learn from: the loss is `weight` x KL(teacher, model) + (1 - `weight`) x
    the cross entropy of the text (arXiv:1503.02531, at temperature 1)."""

    model: str
    weight: float


@dataclass(frozen=True)
class Entry:
    """One row of the table: a model of a family.

    It learns text, or the questions of a `task`. `storage` is what its weights are rounded to when
    they are written.
    """

    name: str
    summary: str
    architecture: Architecture
    budget: Budget
    start: Start | None = None
    teacher: Teacher | None = None
    task: Task | None = None
    storage: Storage = "float32"

    @property
    def needs(self) -> tuple[str, ...]:
        """Rows that must be trained before this one."""
        return tuple(other.model for other in (self.start, self.teacher) if other is not None)


@dataclass(frozen=True)
class Slot:
    """A place in a family for an architecture that nothing here can train yet."""

    name: str
    reason: str
