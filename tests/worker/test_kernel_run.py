"""A kernel by itself: gated, timed, and refused where it is wrong or faster than it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness.hardware.ceilings import Ceilings
from harness.run import RunRecord
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import KernelPoint
from harness.worker import kernel_run, run, verify
from harness.worker.job import Job

SIZES = {
    "linear": {"B": 3, "D": 33, "F": 65},
    "decode_attention": {"B": 3, "S": 40, "N": 4, "K": 2, "H": 16}
    | {"block": 16, "ragged": 1, "strided": 0},
}
HIGH = Ceilings(bandwidth_bytes_per_s=1e18, flops_per_s={"float32": 1e18}, source="measured")


def job(kernel: str, **changes: Any) -> Job:
    case = {
        "stack": None,
        "model": "",
        "checkpoint_hash": None,
        "workload": KernelPoint(kernel=kernel, sizes=SIZES[kernel]),
    }
    case |= {name: changes.pop(name) for name in list(changes) if name in Case.model_fields}
    fields = {
        "measure": MeasureSettings(max_seconds=0.05, precision=0.5),
        "gate": GateSettings(),
        "seed": 1,
        "round": 0,
        "order_slot": 0,
        "ceilings": HIGH,
    }
    return Job(case=Case(**case), **(fields | changes))


def values(record: RunRecord) -> Mapping[str, float | None]:
    return {metric.name: metric.value for metric in record.metrics}


@pytest.mark.parametrize("kernel", SIZES)
def test_a_kernel_is_gated_before_and_after_and_timed(kernel: str) -> None:
    record = run(job(kernel))
    assert (record.status, record.reason) == ("ok", None)
    names = {gate.name for gate in record.gates}
    assert {"numeric_max", "numeric_after_max", "plausible_kernel"} <= names
    found = values(record)
    time, rate, intensity = found["kernel_time"], found["achieved_flops"], found["intensity"]
    assert time
    assert rate
    assert intensity
    assert found["achieved_bandwidth"] == pytest.approx(rate / intensity)
    assert record.implementations == {kernel: "torch"}


def test_every_dtype_is_checked_in_float32_too() -> None:
    names = [gate.name for gate in verify(job("linear", dtype="bfloat16")).gates]
    assert "numeric_float32_max" in names
    assert "numeric_max" in names
    assert verify(job("linear")).metrics == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, w: torch.zeros(x.shape[0], w.shape[1]),
        lambda x, w: (x * 1.0001) @ w,
        lambda x, w: torch.empty(x.shape[0], w.shape[1]),
        lambda x, w: (x @ w).flip(0),
    ],
    ids=["zeros", "scaled", "unwritten", "shuffled"],
)
def test_a_wrong_kernel_carries_no_number(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., torch.Tensor]
) -> None:
    monkeypatch.setattr(kernel_run, "implementation", lambda *_: ("torch", wrong))
    record = run(job("linear"))
    assert record.status == "gate_failed"
    assert record.metrics == []


def test_a_kernel_that_remembers_its_first_answer_is_caught_after_timing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """flashinfer-bench#413: an output remembered once timing begins."""
    calls: list[torch.Tensor] = []

    def remembering(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if len(calls) < 3:
            calls.append(x @ w)
            return calls[-1]
        return calls[2]

    monkeypatch.setattr(kernel_run, "implementation", lambda *_: ("torch", remembering))
    record = run(job("linear"))
    assert record.status == "gate_failed"
    assert {gate.name for gate in record.gates if not gate.passed} >= {"numeric_after_max"}


def test_a_kernel_faster_than_its_bytes_is_refused() -> None:
    """karpathy/llm.c#851: four times the peak of the memory."""
    slow = Ceilings(bandwidth_bytes_per_s=1.0, flops_per_s={"float32": 1.0}, source="measured")
    record = run(job("linear", ceilings=slow))
    assert record.status == "gate_failed"
    assert [gate.name for gate in record.gates if not gate.passed] == ["plausible_kernel"]
