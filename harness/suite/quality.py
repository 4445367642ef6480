"""The `quality` workload: how good outputs are, by tasks on held-out text and made-up sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from harness.model import source as models
from harness.records import Record
from harness.suite.axes import Axis, Batch, Tokens
from harness.suite.points import QualityPoint, QualityTask

Windows = Annotated[int, Field(gt=0, le=100_000)]
# A text is fed in part and decided in part, and each half of a copied passage too.
_LEAST_TOKENS = 8
# What of a text is fed at once where the suite does not say: what is asked for comes after it.
_FED: Mapping[str, float] = {"greedy": 0.5, "cloze": 0.75}


class QualityWorkload(Record):
    """Tasks that tell how good a stack's outputs are. Deterministic: one round is enough."""

    kind: Literal["quality"]
    task: Axis[QualityTask] = Field(
        description="text: bits a byte of held-out text and divergence from the baseline; greedy:"
        " how long greedy text equals the baseline's; copying: a passage that comes again; cloze:"
        " which of four continuations is the true one; recall, needle: look-ups over a distance,"
        " for models that learned them"
    )
    windows: Windows = Field(64, description="texts, or sequences of questions")
    tokens: Axis[Tokens] = Field(
        (256,), description="tokens of a text; recall and needle: the longest that is planned for"
    )
    prompt_tokens: Tokens | None = Field(
        None,
        description="of them fed at once, before the others come one by one; none: one, half of"
        " greedy's and three quarters of cloze's",
    )
    batch: Batch = Field(16, description="texts at once")
    seed: int = Field(0, ge=0, le=2**32, description="chooses distractors and made-up sequences")
    against: str | None = Field(
        None,
        description="a model of equal vocabulary that divergences are from; none: the case's own"
        " as it was trained, with a contiguous cache and float32",
    )

    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The values to multiply, by key; the last key varies fastest."""
        return {"task": self.task, "tokens": self.tokens}

    def point(self, values: Mapping[str, Any]) -> QualityPoint:
        """The point with one value for each of the axes. UsageError where `against` is no model."""
        task, tokens = values["task"], values["tokens"]
        fed = self.prompt_tokens or max(1, int(tokens * _FED.get(task, 0)))
        found = None if self.against is None else models.find(self.against, ())
        return QualityPoint(
            task=task,
            windows=self.windows,
            tokens=tokens,
            prompt_tokens=fed,
            batch=min(self.batch, self.windows),
            seed=self.seed,
            against=None if found is None else found.name,
            against_hash=None if found is None else found.checkpoint_hash,
        )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if min(self.tokens) < _LEAST_TOKENS:
            raise ValueError(f"has texts of fewer than {_LEAST_TOKENS} tokens")
        if self.prompt_tokens is not None and self.prompt_tokens >= min(self.tokens):
            raise ValueError("feeds all of a text at once; lower prompt_tokens below tokens")
        return self
