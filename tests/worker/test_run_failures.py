"""A whole run that raises, hangs, cannot run here, or meets what has changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from harness import worker
from harness.engine.request import Emission
from tests.worker.records import MakeJob, Wrap, assert_refused


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("boom"), "error"),
        (MemoryError("no room"), "oom"),
        (torch.OutOfMemoryError("CUDA out of memory"), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "oom"),
        (RuntimeError("something else"), "error"),
    ],
)
@pytest.mark.parametrize("step", [1, 25], ids=["in the gates", "while timed"])
def test_what_an_engine_raises_becomes_a_row(
    make_job: MakeJob,
    around: Wrap,
    around_engine: Any,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    status: str,
    step: int,
) -> None:
    class Raising(around_engine):  # type: ignore[misc]
        steps = 0

        def step(self) -> list[Emission]:
            self.steps += 1
            if self.steps == step:
                raise error
            found: list[Emission] = self.inner.step()
            return found

    around(Raising)
    record = worker.run(make_job())
    assert record.status == status
    assert record.metrics == []
    assert str(error) in (record.reason or "")
    assert type(error).__name__ in (record.reason or "")
    assert ("Traceback" in capsys.readouterr().err) == (status == "error")


def test_an_engine_that_is_stuck_is_an_error(
    make_job: MakeJob, around: Wrap, around_engine: Any
) -> None:
    class Stuck(around_engine):  # type: ignore[misc]
        def step(self) -> list[Emission]:
            return []

    around(Stuck)
    record = worker.run(make_job())
    assert record.status == "error"
    assert "it is stuck" in (record.reason or "")


def test_verify_gates_and_does_not_time(make_job: MakeJob) -> None:
    record = worker.verify(make_job("gqa+recompute"))
    assert record.status == "ok"
    assert record.metrics == []
    assert "sampling" not in record.telemetry
    assert {"numeric_max", "regret"} <= {gate.name for gate in record.gates}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"backend": "triton"}, "no GPU: `harness verify` checks the Triton kernels"),
        ({"cuda_graph": True}, "cuda_graph needs a CUDA device"),
        ({"spec": "mha+gqa(kv_heads=3)"}, ""),
        ({"prompt_tokens": 100_000}, ""),
        ({"device": "cuda:99"}, "torch sees no GPU"),
    ],
    ids=["triton", "graph", "stack", "length", "device"],
)
def test_what_cannot_run_here_is_unsupported(
    make_job: MakeJob, changes: dict[str, Any], reason: str
) -> None:
    if changes.get("device") and torch.cuda.is_available():
        pytest.skip("there is a GPU on this machine")
    if "spec" in changes:
        job = make_job()
        [choice] = job.case.composed.architecture
        three = choice.model_copy(update={"options": {"kv_heads": 3}})
        stack = job.case.composed.model_copy(update={"architecture": (three,)})
        job = job.model_copy(update={"case": job.case.model_copy(update={"stack": stack})})
    else:
        job = make_job(**changes)
    record = worker.run(job)
    assert record.status == "unsupported", record.reason
    assert reason in (record.reason or "")
    assert record.gates == []


def test_bfloat16_in_the_interpreter_is_refused_with_the_reason(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    record = worker.verify(make_job(backend="triton", dtype="bfloat16"))
    assert record.status == "unsupported"
    assert "computes bfloat16 wrongly" in (record.reason or "")
    assert worker.run(make_job(backend="triton")).status == "unsupported"


def test_a_checkpoint_that_changed_is_an_error(make_job: MakeJob) -> None:
    record = worker.run(make_job(checkpoint_hash="0" * 64))
    assert record.status == "error"
    assert "is not the one this case was planned with" in (record.reason or "")


def test_the_engine_cannot_damage_the_references_weights(make_job: MakeJob, around: Wrap) -> None:
    """A plugin that scales a tensor in place must not scale the reference's as well."""

    def wrap(engine: Any) -> Any:
        engine.runner.model._embedding.mul_(1.01)
        return engine

    around(wrap)
    assert_refused(worker.run(make_job()), "numeric_max")
