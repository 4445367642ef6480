"""Which cases need no process, because a smaller one of the same kind ran out of memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.suite.case import Case

# Fields of a workload that only ever make a case larger.
_SIZES = ("batch", "prompt_tokens", "new_tokens")


def dominated_by(case: Case, exhausted: Iterable[Case]) -> Case | None:
    """The first case of `exhausted` that is of the same kind as `case` and no larger in any way.

    Same kind: everything equal but the sizes of the workload. A case dominates itself, so that
    one that ran out of memory in a round is not tried in the next.
    """
    kind, sizes = _split(case)
    for smaller in exhausted:
        other_kind, other_sizes = _split(smaller)
        if other_kind == kind and all(other_sizes[name] <= sizes[name] for name in sizes):
            return smaller
    return None


def _split(case: Case) -> tuple[dict[str, Any], dict[str, int]]:
    """What kind of case this is, and how large."""
    kind = case.model_dump(mode="json", exclude={"stack": {"label"}})
    workload: dict[str, Any] = kind["workload"]
    return kind, {name: workload.pop(name) for name in _SIZES if name in workload}
