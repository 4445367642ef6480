"""Plain values to a pydantic model; the first fault becomes one sentence in words.

Values pass through JSON in strict mode, so `true` is no number, "8" is no 8, and what is accepted
can be written to a file again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.errors import UsageError, printable
from harness.suite.document import KeyPath

ModelT = TypeVar("ModelT", bound=BaseModel)

# pydantic's error types in words that follow the key; `{x}` is filled from the error's context.
_WORDS: Mapping[str, str] = {
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of keys to values",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_attributes_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "multiple_of": "must be a multiple of {multiple_of}",
    "string_pattern_mismatch": "must match {pattern}",
    "string_type": "must be text (numbers and words like true need quotes)",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
    "union_tag_invalid": "must be one of {expected_tags}",
}


def validate(
    model: type[ModelT],
    values: Mapping[str, Any],
    where: Callable[[KeyPath], str],
    noun: str = "key",
) -> ModelT:
    """The values as a model.

    Args:
        model: the pydantic model to fill.
        values: plain values, as read from YAML or JSON.
        where: names the place of a key path, for example "suites/decode.yaml, line 7".
        noun: what an entry of the model is called.

    Raises:
        UsageError: one sentence about the first fault; "(and 2 more)" when there are others.
    """
    try:
        text = json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{where(())}: {printable(str(error))}") from error
    try:
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # A misspelt key is also a missing one: its own fault says more.
        first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
        path, sentence = _sentence(model, first, noun)
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise UsageError(f"{where(path)}: {sentence}{more}") from error


def dotted(path: KeyPath) -> str:
    """A key path as `--set` takes it, on one line: "workload.batch", "exclude[0].stack"."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return printable(text)


def _sentence(model: type[BaseModel], fault: ErrorDetails, noun: str) -> tuple[KeyPath, str]:
    """Where a fault is, and what is wrong there."""
    path, known = _walk(model, fault["loc"])
    kind = fault["type"]
    # Bounds of numbers are floats there: 1 reads better than 1.0.
    context = {
        key: int(bound) if isinstance(bound, float) and bound.is_integer() else bound
        for key, bound in fault.get("ctx", {}).items()
    }
    if kind == "extra_forbidden":
        inside = f" in {dotted(path[:-1])}" if path[:-1] else ""
        return (
            path,
            f"unknown {noun} '{printable(str(path[-1]))}'{inside}; {_hint(path[-1], known)}",
        )
    if kind in ("missing", "union_tag_not_found"):
        if kind == "union_tag_not_found":
            path = (*path, str(context["discriminator"]).strip("'"))
        return path, f"the {noun} '{dotted(path)}' is missing"
    if kind == "union_tag_invalid":
        path = (*path, str(context["discriminator"]).strip("'"))
        given = f" (got '{printable(str(context['tag']), 40)}')"
    else:
        given = f" (got {_shown(fault['input'])})"
    if kind == "value_error":
        return path, f"{dotted(path)} {context['error']}".lstrip()
    words = _WORDS[kind].format(**context) if kind in _WORDS else f"is wrong: {fault['msg']}"
    # A list's entries share its sentence, so that `batch: 0` and `batch: [0]` read alike.
    named = path[:-1] if path and isinstance(path[-1], int) else path
    return path, f"{dotted(named)} {words}{given}"


def _hint(name: object, known: list[str]) -> str:
    close = get_close_matches(str(name)[:80], known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known) or 'none'}"


def _shown(value: object) -> str:
    """A value as YAML's flow style writes it, cut to what fits into a sentence."""
    if isinstance(value, str):
        return f"'{printable(value, 40)}'"
    return printable(json.dumps(value, default=str), 40)


def _walk(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[KeyPath, list[str]]:
    """pydantic's location without the tags of unions, and the keys known at its last mapping."""
    path: list[int | str] = []
    at: list[type[BaseModel]] = [model]
    known: list[str] = []
    for part in loc:
        if isinstance(part, int):
            path.append(part)
            continue
        known = [key for choice in at for key in choice.model_fields]
        if at and part not in known and part in _tags(at) and part is not loc[-1]:
            at = [choice for choice in at if part in _tags([choice])]
            continue
        fields = [c.model_fields[part].annotation for c in at if part in c.model_fields]
        at = [found for annotation in fields for found in _models(annotation)]
        path.append(part)
    return tuple(path), known


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models inside an annotation: those of X | None, tuple[X, ...], dict[str, X]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]


def _tags(models: list[type[BaseModel]]) -> set[str]:
    """Values of the `kind` that tells the members of a union apart."""
    kinds: list[Any] = [
        m.model_fields["kind"].annotation for m in models if "kind" in m.model_fields
    ]
    return {str(tag) for kind in kinds for tag in get_args(kind)}
