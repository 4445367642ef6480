"""A job of a quality case, and a folder of its own for what runs keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import paths, stack
from harness.model import source
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import QualityPoint
from harness.worker.job import Job


@pytest.fixture(autouse=True)
def own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a run keeps, it keeps here."""
    monkeypatch.setattr(paths, "results", lambda: tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def make_job() -> Callable[..., Job]:
    """A job of a task on a model; keywords replace fields of point, case or job."""

    def make(task: str, model: str = "zoo/small", spec: str = "gqa", **changes: Any) -> Job:
        point = {"windows": 4, "tokens": 32, "prompt_tokens": 1, "batch": 3}
        point |= {k: changes.pop(k) for k in list(changes) if k in QualityPoint.model_fields}
        parsed = stack.parse(spec)
        found = source.find(model, parsed.member_names)
        case = {
            "stack": stack.completed(parsed, found),
            "model": found.name,
            "checkpoint_hash": found.checkpoint_hash,
            "workload": QualityPoint(task=task, **point),
        }
        case |= {k: changes.pop(k) for k in list(changes) if k in Case.model_fields}
        fields: dict[str, Any] = {
            "measure": MeasureSettings(rounds=1),
            "gate": GateSettings(),
            "seed": 1,
            "round": 0,
            "order_slot": 0,
        }
        return Job(case=Case(**case), **(fields | changes))

    return make
