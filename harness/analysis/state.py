"""State bytes read off the tensors beside the lecture's formula, and how far a stack cuts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.analysis.ratios import baselines, point
from harness.analysis.results import Result
from harness.errors import HarnessError
from harness.model import source
from harness.plan import EnginePlan, Trait
from harness.shape import DTYPE_BYTES
from harness.stack import resolve
from harness.suite.case import Case
from harness.suite.points import GeneratePoint

FORMULA = "B*(P+N-1)*L*K*H*2*bytes"


@dataclass(frozen=True)
class StateRow:
    """One result's state: measured, by formula (None with a reason), and against the baseline."""

    result: Result
    measured_bytes: int
    formula_bytes: int | None
    reason: str | None
    cut: float | None  # baseline's bytes / these bytes

    @property
    def agrees(self) -> bool | None:
        """Whether the two are equal, to the byte."""
        return None if self.formula_bytes is None else self.measured_bytes == self.formula_bytes


def planned(case: Case) -> EnginePlan:
    """The plan a case runs with. HarnessError where its model is not on this machine."""
    names = case.composed.member_names
    w = case.generated
    return resolve(
        case.composed,
        source.find(case.model, names),
        dtype=case.dtype,
        backend=case.backend,
        slots=w.batch,
        max_tokens=w.prompt_tokens + w.new_tokens,
    )


def formula_bytes(workload: GeneratePoint, plan: EnginePlan) -> int | None:
    """B*(P+N-1)*L*K*H*2*bytes: keys and values of all tokens but the last, which is never cached.

    Without an incremental cache nothing is held. None for layers that are not plain attention:
    what they keep is no matter of this formula. Source: lecture 3.3.
    """
    s = plan.shape
    if Trait.INCREMENTAL not in plan.traits:
        return 0
    if s.mixers or any(s.windows) or Trait.TOKEN_STATE not in plan.traits:
        return None
    held = workload.batch * (workload.prompt_tokens + workload.new_tokens - 1)
    groups = -(-s.layers // s.kv_share)
    return held * groups * s.kv_heads * s.head_dim * 2 * DTYPE_BYTES[plan.dtype]


def states(
    results: Sequence[Result], baseline: str, plan_of: Callable[[Case], EnginePlan] = planned
) -> list[StateRow]:
    """A row for each result with measured state, in the order of the results."""
    against = baselines(results, baseline)
    plans: dict[tuple[str, ...], EnginePlan] = {}
    rows = []
    for result in results:
        measured = result.value("state_bytes")
        if measured is None:
            continue
        expected, reason = None, None
        case = result.case
        # The shape does not depend on the point, and finding a model may hash its weights.
        key = (case.composed.model_dump_json(), case.model, case.dtype, case.backend)
        try:
            if key not in plans:
                plans[key] = plan_of(case)
            expected = formula_bytes(case.generated, plans[key])
            reason = None if expected is not None else "its layers are not plain attention"
        except HarnessError as error:
            reason = str(error)
        other = against.get(point(result))
        base = other.value("state_bytes") if other is not None else None
        cut = base / measured if base and measured else None
        rows.append(StateRow(result, round(measured), expected, reason, cut))
    return rows
