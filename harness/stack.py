"""Stacks: the techniques that fill the five slots, and the engine plan they make together.

A stack is written as text, `gqa(kv_heads=2)+paged`, or as a mapping,
{name: chat, architecture: {gqa: {kv_heads: 2}}, cache: {paged: {block: 16}}}. The slot of a name
is the technique's own; slots not named take the baseline. Several techniques may stand in the
architecture slot, where each edits other numbers of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.errors import UnfitError, UsageError, printable
from harness.fit import broken_rule, misfit
from harness.plan import EnginePlan, Limits
from harness.shape import DTypeName, ModelShape
from harness.stacktext import from_mapping, from_text, label
from harness.suite.case import Choice, StackSpec
from harness.suite.validation import validate
from harness.technique import BASELINES, Slot, Technique, TechniqueOptions

if TYPE_CHECKING:
    from harness.model.source import ModelSource

Part = tuple[Technique[Any], TechniqueOptions]


def parse(spec: str | Mapping[str, Any], plugin_paths: Sequence[str | Path] = ()) -> StackSpec:
    """The stack that a text or mapping names: baselines filled in, only non-default options kept.

    A stack that names no architecture has none until `completed` gives it the model's own.

    Raises UsageError in one sentence for an unknown technique, slot or option, a value out of
    bounds, and two techniques for one slot.
    """
    registry.install(plugin_paths)
    name, parts = from_text(spec) if isinstance(spec, str) else from_mapping(spec)
    shown = name or (spec if isinstance(spec, str) else "without a name")
    filled: dict[Slot, list[Choice]] = {slot: [] for slot in Slot}
    for part in parts:
        technique = registry.get(part.technique)
        if part.slot not in (None, technique.slot):
            raise UsageError(
                f"technique '{technique.name}' fills the slot {technique.slot}, not {part.slot}"
            )
        options = _options(technique, part.options)
        choice = Choice(technique=technique.name, options=options.non_default())
        _add(filled[technique.slot], choice, technique.slot, shown)
    filled[Slot.ARCHITECTURE].sort(key=_place)
    for slot, baseline in BASELINES.items():
        if slot is not Slot.ARCHITECTURE:
            filled[slot] = filled[slot] or [Choice(technique=baseline)]
    stack = StackSpec(
        label="",
        architecture=tuple(filled[Slot.ARCHITECTURE]),
        weights=filled[Slot.WEIGHTS][0],
        cache=filled[Slot.CACHE][0],
        decoding=filled[Slot.DECODING][0],
        scheduling=filled[Slot.SCHEDULING][0],
    )
    return stack.model_copy(update={"label": name or label(stack)})


def completed(stack: StackSpec, source: ModelSource) -> StackSpec:
    """The stack with the model's own architecture where it names none.

    Filling in multi-head attention instead would quietly measure another model than the one named.
    """
    if stack.architecture:
        return stack
    full = stack.model_copy(update={"architecture": (Choice(technique=source.architecture),)})
    return full.model_copy(update={"label": label(full)}) if stack.label == label(stack) else full


def techniques(stack: StackSpec) -> list[Part]:
    """The stack's techniques with their full options, in order of `apply`."""
    rest = (stack.weights, stack.cache, stack.decoding, stack.scheduling)
    found = [(registry.get(c.technique), c.options) for c in (*stack.architecture, *rest)]
    return [(technique, _options(technique, given)) for technique, given in found]


def resolve(
    stack: StackSpec,
    source: ModelSource,
    *,
    dtype: DTypeName,
    backend: str,
    slots: int,
    max_tokens: int,
    state_bytes: int | None = None,
) -> EnginePlan:
    """The stack on a model as an engine plan.

    Args:
        stack: what fills the slots.
        source: the model; only its shape and kind are read.
        dtype: number format of weights and state.
        backend: which implementation of the kernels runs.
        slots: B, sequences held at once.
        max_tokens: P + N, the longest sequence.
        state_bytes: memory for keys and values; None: as much as every slot at its longest takes.

    Raises:
        UnfitError: the parts do not work together, contradict the model's trained weights, or
            need more places than the model has; the sentence says what would fit.
    """
    stack = completed(stack, source)
    limits = Limits(slots=slots, max_tokens=max_tokens, state_bytes=state_bytes)
    plan = EnginePlan(shape=source.shape, dtype=dtype, backend=backend, limits=limits)
    return assemble(stack.label, techniques(stack), plan, source)


def assemble(name: str, parts: Sequence[Part], plan: EnginePlan, source: ModelSource) -> EnginePlan:
    """`resolve` for techniques that are at hand: each `apply` in order, then the checks."""
    writers: dict[str, str] = {}
    for technique, options in parts:
        before = plan.shape
        plan = _applied(technique, options, plan, name)
        if technique.slot is Slot.ARCHITECTURE and plan.shape is not before:
            _note_writer(writers, technique.name, before, plan.shape, name)
    for reason in (broken_rule(plan), misfit(plan, source)):
        if reason:
            raise UnfitError(f"stack '{name}': {reason}")
    return plan


def _applied(
    technique: Technique[Any], options: TechniqueOptions, plan: EnginePlan, name: str
) -> EnginePlan:
    """One `apply`. What a plugin raises by mistake costs its own stacks, not the suite."""
    try:
        applied = technique.apply(plan, options)
    except UnfitError as error:
        raise UnfitError(f"stack '{name}': {error}") from error
    except Exception as error:
        reason = printable(f"{type(error).__name__}: {error}", 160)
        raise UnfitError(
            f"stack '{name}': technique '{technique.name}' failed in apply: {reason}"
        ) from error
    if not isinstance(applied, EnginePlan):
        raise UnfitError(f"stack '{name}': apply of '{technique.name}' returned no EnginePlan")
    return applied


def _place(choice: Choice) -> tuple[bool, str, str]:
    """Where an architecture goes: one stack, however it is written, is one case."""
    technique = registry.get(choice.technique)
    return technique.own_layers, technique.lecture or "?", technique.name


def _note_writer(
    writers: dict[str, str], technique: str, before: ModelShape, after: ModelShape, name: str
) -> None:
    """Remember which numbers an architecture set; two that set the same one contradict."""
    for field in fields(ModelShape):
        if getattr(before, field.name) == getattr(after, field.name):
            continue
        first = writers.setdefault(field.name, technique)
        if first != technique:
            raise UnfitError(
                f"stack '{name}': '{first}' and '{technique}' both set {field.name} of the model; "
                "one of them alone fits"
            )


def _add(filled: list[Choice], choice: Choice, slot: Slot, shown: str) -> None:
    """Put a technique into its slot, or say why it does not go there."""
    if not filled:
        filled.append(choice)
        return
    first, shown = filled[0].technique, printable(shown)
    if choice.technique in (other.technique for other in filled):
        raise UsageError(f"stack '{shown}' names '{choice.technique}' twice")
    if slot is not Slot.ARCHITECTURE:
        raise UsageError(
            f"stack '{shown}' fills the slot {slot} twice, with '{first}' and "
            f"'{choice.technique}'; only architectures combine"
        )
    if BASELINES[slot] in (first, choice.technique):
        raise UsageError(
            f"stack '{shown}' combines the baseline '{BASELINES[slot]}' with another architecture; "
            "leave it out"
        )
    filled.append(choice)


def _options(technique: Technique[Any], given: Mapping[str, Any]) -> TechniqueOptions:
    """The technique's options, checked; a fault names the technique."""
    name = f"technique '{technique.name}'"
    options: TechniqueOptions = validate(technique.options, given, lambda _: name, noun="option")
    return options
