"""A kernel by itself: gated, timed, and refused where it is wrong or faster than it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from harness.hardware.ceilings import Ceilings
from harness.run import MetricValue, RunRecord
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import KernelPoint
from harness.worker import kernel_run, run, verify
from harness.worker.job import Job
from harness.worker.kernel_timing import ratios

SIZES = {
    "linear": {"B": 3, "D": 33, "F": 65},
    "rope_write": {"T": 5, "N": 4, "K": 2, "H": 16, "block": 16, "strided": 0, "idle": 1},
    "rms_norm": {"T": 5, "D": 64, "residual": 1, "strided": 0},
    "decode_attention": {"B": 2, "S": 40, "N": 4, "K": 2, "H": 16},
}
HIGH = Ceilings(bandwidth_bytes_per_s=1e18, flops_per_s={"float32": 1e18}, source="measured")


def job(kernel: str, *peers: str, **changes: Any) -> Job:
    case = {
        "stack": None,
        "model": "",
        "checkpoint_hash": None,
        "workload": KernelPoint(kernel=kernel, sizes=SIZES[kernel], peers=peers),
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


def test_a_kernel_that_writes_to_another_place_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """In what it was given, which the reference therefore does not read."""
    from harness.kernels.rope_write.eager import rope_write

    def wrong(qkv: Any, cos: Any, sin: Any, k: Any, v: Any, *where: Any) -> Any:
        returned = rope_write(qkv, cos, sin, k, v, *where)
        v[0, 0, 0] += 1
        return returned

    monkeypatch.setattr(kernel_run, "implementation", lambda *_: ("torch", wrong))
    record = run(job("rope_write"))
    assert record.status == "gate_failed"
    assert "numeric_output2_max" in {gate.name for gate in record.gates if not gate.passed}


def test_an_output_too_few_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.kernels.rms_norm.eager import rms_norm

    monkeypatch.setattr(
        kernel_run, "implementation", lambda *_: ("torch", lambda *given: rms_norm(*given)[0])
    )
    record = run(job("rms_norm"))
    assert record.status == "gate_failed"
    assert "1 outputs, the reference has 2" in {gate.detail for gate in record.gates}


def test_rates_are_shares_of_what_was_measured() -> None:
    limits = Ceilings(bandwidth_bytes_per_s=2e18, flops_per_s={"float32": 4e18}, source="measured")
    found = values(run(job("linear", ceilings=limits)))
    assert found["bandwidth_fraction"] == pytest.approx((found["achieved_bandwidth"] or 0) / 2e18)
    assert found["matrix_fraction"] == pytest.approx((found["achieved_flops"] or 0) / 4e18)
    unknown = run(job("linear", ceilings=None))
    reasons = {metric.name: metric.null_reason for metric in unknown.metrics}
    assert reasons["bandwidth_fraction"] == "the device's ceilings are not known"


def test_peers_are_timed_in_turns_and_ratios_have_their_interval() -> None:
    longer = MeasureSettings(max_seconds=2.0, precision=0.5)
    record = run(job("decode_attention", "flash", "math", "cudnn", "eager", measure=longer))
    assert (record.status, record.reason) == ("ok", None)
    found = {metric.name: metric for metric in record.metrics}
    for peer in ("flash", "math", "eager"):
        ratio = found[f"speedup_{peer}"]
        assert ratio.value
        assert ratio.ci_low is not None
        assert ratio.ci_low <= ratio.value <= (ratio.ci_high or 0)
        assert found["kernel_time"].n == found[f"peer_time_{peer}"].n
        assert ratio.n == found["kernel_time"].n // 2
    # On a CPU there is no cuDNN: no ratio, and why.
    assert found["speedup_cudnn"].value is None
    assert "RuntimeError: No viable backend" in (found["speedup_cudnn"].null_reason or "")
    assert set(record.telemetry["peers"]) == {"flash", "math", "eager"}


def test_a_peer_that_computes_something_else_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.kernels.prefill_attention import peers

    right = peers.make

    def wrong(inputs: Any) -> Any:
        return right(inputs._replace(scale=2 * inputs.scale))

    monkeypatch.setattr(peers, "make", wrong)
    record = run(job("decode_attention", "flash"))
    assert record.status == "ok", "the kernel itself is right"
    found = {metric.name: metric for metric in record.metrics}
    assert found["speedup_flash"].value is None
    assert (found["speedup_flash"].null_reason or "").startswith("wrong: numeric_max")


def test_what_no_peer_can_compute_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {**SIZES["decode_attention"], "int8": 1}
    monkeypatch.setitem(SIZES, "decode_attention", sizes)
    record = run(job("decode_attention", "flash", "eager"))
    found = {metric.name: metric for metric in record.metrics}
    assert (found["speedup_flash"].null_reason or "").startswith("eight-bit keys and values")
    assert found["speedup_eager"].value


def test_a_ratio_is_of_rounds_side_by_side_not_of_medians() -> None:
    """Both sides slow down together: every two rounds still say 2, as their interval does."""
    own = [100.0 * (1 + i) for i in range(20)]
    found = {m.name: m for m in ratios(own, {"flash": [2 * t for t in own]}, {"flex": "no"})}
    assert found["speedup_flash"] == MetricValue(
        name="speedup_flash", value=2.0, n=10, ci_low=2.0, ci_high=2.0
    )
    assert found["speedup_flex"].null_reason == "no"


def test_what_going_first_costs_cancels() -> None:
    """Who goes second finds its operands warm, half as slow: that is nobody's advantage."""
    own = [2.0 if i % 2 == 0 else 1.0 for i in range(21)]
    other = [1.0 if i % 2 == 0 else 2.0 for i in range(21)]
    (ratio, _) = ratios(own, {"flash": other}, {})
    assert (ratio.value, ratio.n) == (1.0, 10)
