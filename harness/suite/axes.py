"""Axes of a grid: a key of a suite that takes one value or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema, core_schema

from harness.errors import printable
from harness.records import Record

# Bounds no grid reaches on purpose, so that a slip of the keyboard is a sentence and not a week.
MAX_BATCH = 65_536
MAX_TOKENS = 16_777_216  # 16 Mi; the longest published contexts have 10 million tokens
MAX_THREADS = 1_024
MAX_VALUES = 256  # on one axis

Batch = Annotated[int, Field(gt=0, le=MAX_BATCH)]
Tokens = Annotated[int, Field(gt=0, le=MAX_TOKENS)]
Threads = Annotated[int, Field(gt=0, le=MAX_THREADS)]

T = TypeVar("T")


@dataclass(frozen=True)
class OneOrMore:
    """Lets `dtype: float32` stand for `dtype: [float32]`, in files and in the editors' schema."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """The list's own schema, with one value wrapped before it."""
        return core_schema.no_info_before_validator_function(
            lambda given: tuple(given) if isinstance(given, list) else (given,), handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """An entry, or a list of them."""
        several = handler(schema) | {"minItems": 1, "maxItems": MAX_VALUES, "uniqueItems": True}
        return {"anyOf": [several.get("items", {}), several]}


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """The values, at least one, each of which stands once."""
    if not values:
        raise ValueError("must not be empty")
    # Before each is compared with each, so that this stays quick.
    if len(values) > MAX_VALUES:
        raise ValueError(f"lists {len(values)} values; an axis has at most {MAX_VALUES}")
    for i, value in enumerate(values):
        if value in values[:i]:
            raise ValueError(f"lists {printable(str(value), 40)} twice")
    return values


Axis = Annotated[tuple[T, ...], AfterValidator(_distinct), OneOrMore()]


def _stack(given: Any) -> Any:
    """A stack as text or as a mapping; its parts are checked by `harness.stack.parse`."""
    if (isinstance(given, str) and given.strip()) or (isinstance(given, dict) and given):
        return given
    raise ValueError("must name techniques, such as gqa+paged or {cache: {paged: {block: 16}}}")


class StackMapping(Record):
    """A stack by slots, each a technique's name or {name: {option: value}}; for the schema only."""

    name: str | None = Field(None, description="what tables call it")
    architecture: str | dict[str, Any] | None = None
    weights: str | dict[str, Any] | None = None
    cache: str | dict[str, Any] | None = None
    decoding: str | dict[str, Any] | None = None
    scheduling: str | dict[str, Any] | None = None


StackText = Annotated[Any, BeforeValidator(_stack, json_schema_input_type=str | StackMapping)]
