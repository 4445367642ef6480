"""The keys of a suite file: names, types, defaults, bounds and what each is for.

A new key is a field here; `harness suite schema` and the messages about misspelt keys follow.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, get_args

from pydantic import Field, PrivateAttr, field_serializer, field_validator, model_validator

from harness.records import Record
from harness.shape import DTypeName
from harness.suite.axes import Axis, Batch, StackText, Threads, Tokens
from harness.suite.case import Backend, GateSettings, MeasureSettings
from harness.suite.document import Document
from harness.suite.kernels import KernelWorkload
from harness.suite.points import QualityTask
from harness.suite.slo import SloSetting
from harness.suite.validation import validate
from harness.suite.workloads import WORKLOADS, Workload

Profile = Literal["cpu", "cuda"]
PROFILES: tuple[Profile, ...] = get_args(Profile)


# The keys that a profile may lay over a suite: all but its name and the profiles themselves.
NOT_IN_PROFILES = ("suite", "profiles")


class Selector(Record):
    """Some points of a grid: those whose value is listed, for every key that is given."""

    stack: Axis[str] | None = None
    model: Axis[str] | None = None
    backend: Axis[Backend] | None = None
    dtype: Axis[DTypeName] | None = None
    threads: Axis[Threads] | None = None
    batch: Axis[Batch] | None = None
    prompt_tokens: Axis[Tokens] | None = None
    new_tokens: Axis[Tokens] | None = None
    slots: Axis[Batch] | None = None
    state_mb: Axis[float] | None = None
    prefix_tokens: Axis[int] | None = None
    samples: Axis[int] | None = None
    burstiness: Axis[float] | None = None
    rate: Axis[float] | None = None
    task: Axis[QualityTask] | None = None
    tokens: Axis[Tokens] | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Selector:
        if not self.model_fields_set:
            raise ValueError(f"must name at least one of {', '.join(type(self).model_fields)}")
        return self

    def named(self) -> dict[str, tuple[Any, ...]]:
        """The keys that are given, with the values each may have."""
        return {key: getattr(self, key) for key in type(self).model_fields if getattr(self, key)}


class Profiles(Record):
    """What is laid over the suite on each kind of device; checked when it is laid over."""

    cpu: dict[str, Any] = Field(default_factory=dict)
    cuda: dict[str, Any] = Field(default_factory=dict)

    def given(self) -> tuple[Profile, ...]:
        """The profiles that lay something over."""
        return tuple(profile for profile in PROFILES if getattr(self, profile))


class Suite(Record):
    """One suite. `include`, `exclude` and `profiles` say how the grid departs from a product."""

    suite: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$", description="its name, as in the store")
    about: str = Field("", description="one sentence: which question it answers")
    stacks: Axis[StackText] = Field(
        (),
        description="what is compared: gqa+paged, gqa(kv_heads=2), or a mapping of slots;"
        " kernels have none",
    )
    baseline: str | None = Field(
        None, description="the stack that ratios are against; without it the first one"
    )
    model: Axis[str] = Field(
        (), description="names of `harness list models`, or folders; kernels have none"
    )
    workload: Workload
    backend: Axis[Backend] = Field(("torch",), description="which implementation of the kernels")
    dtype: Axis[DTypeName] = Field(("float32",), description="number format of weights and state")
    threads: Axis[Threads] = Field((1,), description="CPU threads of the worker")
    measure: MeasureSettings = MeasureSettings()
    gate: GateSettings = GateSettings()
    slo: SloSetting | None = Field(
        None,
        description="what goodput asks of a request: chat, completion, batch, rollout or both"
        " bounds; without it goodput is undefined",
    )
    profiles: Profiles = Field(
        default=Profiles(),
        description="keys laid over the suite's own when it runs on that kind of device",
    )
    include: tuple[Selector, ...] = Field(
        (),
        max_length=256,
        description="points beside the grid; a key that is not named takes every value of the grid",
    )
    exclude: tuple[Selector, ...] = Field(
        (),
        max_length=256,
        description="points taken out of the grid; include adds after exclude has removed",
    )
    hardware: Axis[str] = Field(
        ("local",), description="local measures here; names of a catalogue add predicted rows"
    )

    @model_validator(mode="after")
    def _stacks_unless_kernels(self) -> Suite:
        kernels = isinstance(self.workload, KernelWorkload)
        if not kernels and not self.stacks:
            raise ValueError("the key 'stacks' is missing")
        named = ("stacks", "baseline", "model", "include", "exclude", "slo")
        if kernels and (given := [name for name in named if getattr(self, name)]):
            raise ValueError(f"kernels have no stack and no model: take out {', '.join(given)}")
        return self

    @field_serializer("model")
    def _one_or_several(self, model: tuple[str, ...]) -> str | list[str]:
        """As most files write it, so that the hash of a suite with one model stays what it was."""
        return model[0] if len(model) == 1 else list(model)

    _document: Document = PrivateAttr(default=Document({}, "", "suite"))

    @field_validator("measure")
    @classmethod
    def _ends_before_it_is_killed(cls, measure: MeasureSettings) -> MeasureSettings:
        if measure.timeout_seconds <= measure.max_seconds:
            raise ValueError(
                f"kills a run after {measure.timeout_seconds:g} s that may measure for "
                f"{measure.max_seconds:g} s; raise timeout_seconds above max_seconds"
            )
        return measure

    @classmethod
    def of(cls, document: Document) -> Suite:
        """The suite that a document holds. UsageError, one sentence, when it does not hold one."""
        suite = validate(cls, document.values, document.place)
        suite._document = document
        return suite

    @property
    def document(self) -> Document:
        """The file it came from, with what `--set` changed since."""
        return self._document

    @property
    def text(self) -> str:
        """The YAML as read, before `--set`."""
        return self._document.text

    @property
    def hash(self) -> str:
        """SHA-256 of what the suite asks for, defaults and `about` left out.

        A new key with a default, a comment or another order of keys changes no hash.
        """
        content = self.model_dump(mode="json", exclude={"about"}, exclude_defaults=True)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def json_schema() -> dict[str, Any]:
    """The JSON schema of a suite file, for editors.

    A profile may hold any key of a suite but its name and other profiles, and none is required.
    """
    schema = Suite.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "harness suite"
    overlay = {
        key: value for key, value in schema["properties"].items() if key not in NOT_IN_PROFILES
    }
    overlay["workload"] = {
        "anyOf": [_partial(schema["$defs"][kind.__name__]) for kind in WORKLOADS]
    }
    schema["properties"]["profiles"] = {
        "type": "object",
        "description": schema["properties"]["profiles"]["description"],
        "additionalProperties": False,
        "properties": {
            profile: {"type": "object", "additionalProperties": False, "properties": overlay}
            for profile in PROFILES
        },
    }
    return schema


def _partial(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a mapping without what it requires."""
    return {key: value for key, value in schema.items() if key != "required"}
