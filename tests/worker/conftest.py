"""A small job, and a way to put something between the worker and the engine it builds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from harness import stack
from harness.engine.request import Emission, Request
from harness.hardware.ceilings import Ceilings
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import GeneratePoint
from harness.worker.job import Job
from harness.worker.setup import Ground

# Far above any machine's, so that only what is meant to be implausible is.
HIGH = Ceilings(
    bandwidth_bytes_per_s=1e18,
    flops_per_s={"float32": 1e18, "bfloat16": 1e18, "float16": 1e18},
    source="measured",
)


@pytest.fixture
def make_job() -> Callable[..., Job]:
    """A job on the preset `tiny`; keywords replace fields of the case or of the job."""

    def make(spec: str = "gqa", **changes: Any) -> Job:
        point = {
            name: changes.pop(name, default)
            for name, default in (("batch", 3), ("prompt_tokens", 12), ("new_tokens", 10))
        }
        case_changes = {k: changes.pop(k) for k in list(changes) if k in Case.model_fields}
        case = {
            "stack": stack.parse(spec),
            "model": "tiny",
            "checkpoint_hash": None,
            "workload": GeneratePoint(**point),
        }
        fields = {
            "measure": MeasureSettings(max_seconds=0.5, precision=0.5),
            "gate": GateSettings(),
            "seed": 1,
            "round": 0,
            "order_slot": 0,
            "ceilings": HIGH,
        }
        return Job(case=Case(**(case | case_changes)), **(fields | changes))

    return make


class Around:
    """An engine with another one inside; subclasses change one thing."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    observer = property(
        lambda self: self.inner.observer,
        lambda self, observer: setattr(self.inner, "observer", observer),
    )

    @property
    def has_work(self) -> bool:
        """Whether the inner engine has."""
        return bool(self.inner.has_work)

    @property
    def implementations(self) -> dict[str, str]:
        """The inner engine's."""
        found: dict[str, str] = self.inner.implementations
        return found

    def submit(self, request: Request) -> None:
        """To the inner engine."""
        self.inner.submit(request)

    def step(self) -> list[Emission]:
        """The inner engine's."""
        found: list[Emission] = self.inner.step()
        return found

    def reset(self) -> None:
        """The inner engine too."""
        self.inner.reset()

    def memory(self) -> Any:
        """The inner engine's."""
        return self.inner.memory()

    def on_head(self, change: Callable[[Tensor], Tensor]) -> None:
        """Let the model's logits go through `change`."""
        head = self.inner.runner.model.head
        self.inner.runner.model.head = lambda x: change(head(x))


@pytest.fixture
def around(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Put `wrap(engine)` in the place of every engine that the worker builds."""
    build = Ground.engine

    def install(wrap: Callable[[Any], Any]) -> None:
        monkeypatch.setattr(Ground, "engine", lambda self: wrap(build(self)))

    return install


@pytest.fixture
def around_engine() -> type[Around]:
    """The class to derive from."""
    return Around
