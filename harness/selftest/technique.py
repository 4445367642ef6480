"""The common part of the fakes: a baseline technique with one thing replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.cost import Cost
from harness.plan import EnginePlan
from harness.registry import get
from harness.shape import BatchShape
from harness.technique import BASELINES, Exactness, Factory, Slot, Technique, TechniqueOptions


class Options(TechniqueOptions):
    """A fake has nothing to set."""


def fake(
    name: str,
    title: str,
    *,
    slot: Slot = Slot.SCHEDULING,
    engine: bool = False,
    linear: str | None = None,
    reference: str | None = None,
    cost: Callable[[Cost], Cost] | None = None,
    lookahead: int = 0,
) -> Technique[Options]:
    """A technique that does what its slot's baseline does, but for one thing.

    Args:
        name: its folder.
        title: what it does wrong, or what is known about it.
        slot: where it stands.
        engine: replace the engine by the folder's `engine:Fake`.
        linear: replace the linear layers, "module:Class" below the folder.
        reference: another reference than the baseline's, "module:function" below the folder.
        cost: what it makes of the cost counted so far.
        lookahead: tokens of a sequence that a step may settle beyond the first.
    """
    baseline = get(BASELINES[slot])

    def apply(plan: EnginePlan, _options: Options) -> EnginePlan:
        plan = baseline.apply(plan, baseline.options())
        if engine:
            plan = plan.add(engine=Factory(f"harness.techniques.{name}.engine:Fake"))
        if lookahead:
            plan = plan.add(limits=replace(plan.limits, lookahead=lookahead))
        if linear is not None:
            plan = plan.add(linear=Factory(f"harness.techniques.{name}.{linear}"))
        return plan

    def count(so_far: Cost, _plan: EnginePlan, _options: Options, _batch: BatchShape) -> Cost:
        return so_far if cost is None else cost(so_far)

    return Technique(
        name=name,
        title=title,
        slot=slot,
        compared_with=baseline.name,
        exactness=lambda _options: Exactness.IDENTICAL,
        lecture="",
        papers=(),
        options=Options,
        apply=apply,
        cost=count,
        reference=baseline.reference
        if reference is None
        else f"harness.techniques.{name}.{reference}",
    )
