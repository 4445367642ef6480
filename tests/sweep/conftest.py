"""Cases and fakes that the tests of sweeps share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.run import MetricValue, RunRecord
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

MakeCase = Callable[..., Case]
MakeRecord = Callable[..., RunRecord]


@pytest.fixture
def make_case() -> MakeCase:
    """A case of the stack `label`, of that size; other fields by name."""

    def make(
        label: str = "mha", batch: int = 1, prompt: int = 8, new: int = 4, **fields: Any
    ) -> Case:
        stack = StackSpec(
            label=label,
            architecture=(Choice(technique=label),),
            weights=Choice(technique="dense"),
            cache=Choice(technique="contiguous"),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        )
        point = GeneratePoint(batch=batch, prompt_tokens=prompt, new_tokens=new)
        values = {"model": "tiny", "checkpoint_hash": None, **fields}
        return Case(stack=stack, workload=point, **values)

    return make


@pytest.fixture
def make_record() -> MakeRecord:
    """A record of a case's run with that status."""

    def make(
        case: Case, status: Any = "ok", number: int = 1, attempt: int = 1, slot: int = 0
    ) -> RunRecord:
        return RunRecord(
            case_hash=case.hash,
            status=status,
            reason=None if status == "ok" else f"made {status}",
            round=number,
            order_slot=slot,
            attempt=attempt,
            started_at=datetime.now(UTC),
            seconds=1.0,
            metrics=[MetricValue(name="tpot", value=5.0)] if status == "ok" else [],
        )

    return make
