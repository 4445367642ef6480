"""The points of a suite: a product of its axes, less what it excludes, plus what it includes.

The order is stable: stacks as listed, then model, backend, dtype, threads, then the workload's own
keys; the last key varies fastest. Included points follow, entry by entry, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from harness import stack as stack_parser
from harness.errors import UsageError, printable, unknown
from harness.suite.case import StackSpec
from harness.suite.document import KeyPath
from harness.suite.kernels import KernelWorkload
from harness.suite.schema import Selector, Suite

# At three seconds a case this many take three days and a half: more is a slip of the keyboard.
MAX_POINTS = 100_000

Point = tuple[Any, ...]  # one value for each key of `Grid.axes`
Axes = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Grid:
    """A suite's points, not yet multiplied."""

    stacks: Mapping[str, StackSpec]  # by label; those that only `include` names stand last
    baseline: str  # a label
    axes: Axes
    excluded: tuple[Axes, ...]  # some keys each: a point that has one value of every key is out
    included: tuple[Axes, ...]  # all keys each, a small grid of its own

    @property
    def size(self) -> int:
        """Points before `exclude`, an included one that the grid has already counted twice."""
        return sum(prod(len(v) for v in axes.values()) for axes in (self.axes, *self.included))

    def points(self) -> list[Point]:
        """The points in their stable order, each once."""
        keys = list(self.axes)
        tests = [
            [(keys.index(key), frozenset(values)) for key, values in entry.items()]
            for entry in self.excluded
        ]
        kept = (
            point
            for point in product(*self.axes.values())
            if not any(all(point[i] in values for i, values in test) for test in tests)
        )
        found = dict.fromkeys(kept)
        for entry in self.included:
            found.update(dict.fromkeys(product(*(entry[key] for key in keys))))
        return list(found)


def grid(suite: Suite) -> Grid:
    """The grid of a suite whose profile is laid over it.

    Raises UsageError, with its line, for an unknown technique or option, a stack that stands
    twice, a baseline that is not listed, and more than `MAX_POINTS` points.
    """
    stacks = _listed(suite)
    axes = {
        "stack": tuple(stacks),
        # A suite may leave the model to its profiles, and is checked without them too.
        "model": suite.model or ("",),
        "backend": suite.backend,
        "dtype": suite.dtype,
        "threads": suite.threads,
        **_workload_axes(suite),
    }
    baseline = _baseline(suite, stacks)
    excluded = tuple(
        _selected(suite, entry, stacks, ("exclude", i)) for i, entry in enumerate(suite.exclude)
    )
    included = []
    for i, entry in enumerate(suite.include):
        path: KeyPath = ("include", i)
        stacks = _with_included(suite, entry, stacks, path)
        included.append({**axes, **_selected(suite, entry, stacks, path)})
    built = Grid(stacks, baseline, axes, excluded, tuple(included))
    if built.size > MAX_POINTS:
        raise UsageError(
            f"{suite.document.place(('workload',))}: the grid has {built.size:,} points, more than "
            f"{MAX_POINTS:,}; list fewer values"
        )
    return built


def _listed(suite: Suite) -> dict[str, StackSpec]:
    """The stacks under `stacks`, by label."""
    found: dict[str, StackSpec] = {}
    for i, text in enumerate(suite.stacks):
        path: KeyPath = ("stacks", i)
        stack = _parse(suite, text, path)
        for label, other in found.items():
            if label == stack.label or _same(other, stack):
                raise UsageError(
                    f"{suite.document.place(path)}: the stack '{stack.label}' stands in the list "
                    f"twice (the other is '{label}')"
                )
        found[stack.label] = stack
    return found


def _workload_axes(suite: Suite) -> Axes:
    assert not isinstance(suite.workload, KernelWorkload), "kernels are planned apart"
    return suite.workload.axes()


def _baseline(suite: Suite, stacks: Mapping[str, StackSpec]) -> str:
    """The label of the stack that ratios are against."""
    if suite.baseline is None:
        return next(iter(stacks))
    labels = _labels(suite, suite.baseline, stacks, ("baseline",))
    if not labels:
        raise UsageError(
            f"{suite.document.place(('baseline',))}: the baseline '{printable(suite.baseline)}' is "
            f"not among the stacks ({printable(', '.join(stacks), 200)}); add it to them"
        )
    return labels[0]


def _selected(
    suite: Suite, entry: Selector, stacks: Mapping[str, StackSpec], path: KeyPath
) -> Axes:
    """The keys an entry names with their values; stacks as labels."""
    named = entry.named()
    known = ("stack", "model", "backend", "dtype", "threads", *_workload_axes(suite))
    for key in named:
        if key not in known:
            error = unknown(f"axis of a {suite.workload.kind} workload", key, known)
            raise UsageError(f"{suite.document.place((*path, key))}: {error}")
    if entry.stack:
        labels = [
            label
            for i, text in enumerate(entry.stack)
            for label in _labels(suite, text, stacks, (*path, "stack", i))
        ]
        named["stack"] = tuple(labels)
    return named


def _with_included(
    suite: Suite, entry: Selector, stacks: Mapping[str, StackSpec], path: KeyPath
) -> dict[str, StackSpec]:
    """The stacks, and those that the entry names beside them."""
    found = dict(stacks)
    for i, text in enumerate(entry.stack or ()):
        if not _labels(suite, text, found, (*path, "stack", i)):
            stack = _parse(suite, text, (*path, "stack", i))
            found[stack.label] = stack
    return found


def _labels(suite: Suite, text: str, stacks: Mapping[str, StackSpec], path: KeyPath) -> list[str]:
    """The label that a text means: its own, or that of the stack it spells in another way."""
    if text in stacks:
        return [text]
    stack = _parse(suite, text, path)
    return [label for label, other in stacks.items() if _same(stack, other)]


def _parse(suite: Suite, text: Any, path: KeyPath) -> StackSpec:
    try:
        return stack_parser.parse(text)
    except UsageError as error:
        raise UsageError(f"{suite.document.place(path)}: {error}") from error


def _same(one: StackSpec, other: StackSpec) -> bool:
    """Whether two stacks are the same but for their labels."""
    return one.model_copy(update={"label": ""}) == other.model_copy(update={"label": ""})
