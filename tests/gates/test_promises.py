"""What a stack promises decides what it is held to, and what is left out is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import stack
from harness.gates.reference import promised
from harness.gates.regret import check_related
from harness.run import RunRecord
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.points import GeneratePoint
from harness.technique import Exactness, Slot
from harness.worker import run
from harness.worker.job import Job

PLUGINS = (str(Path(__file__).parent / "plugins"),)


def measured(spec: str) -> RunRecord:
    case = Case(
        stack=stack.parse(spec, PLUGINS),
        model="tiny",
        checkpoint_hash=None,
        workload=GeneratePoint(batch=3, prompt_tokens=20, new_tokens=12),
    )
    return run(
        Job(
            case=case,
            measure=MeasureSettings(max_seconds=0.2, precision=0.9),
            gate=GateSettings(),
            seed=3,
            round=0,
            order_slot=0,
            plugin_paths=PLUGINS,
        )
    )


def test_a_lossy_cache_is_held_to_its_prompts_alone() -> None:
    record = measured("mha+rounded")
    assert record.status == "ok", record.reason
    names = {gate.name for gate in record.gates}
    assert "related_after" in names
    assert not any(name.startswith(("numeric", "regret")) for name in names)
    assert [said.split(":")[0] for said in record.telemetry["gates_left_out"]] == [
        "numeric",
        "regret",
    ]


def test_a_lossy_cache_that_says_it_is_exact_is_caught() -> None:
    record = measured("mha+rounded(honest=false)")
    assert record.status == "gate_failed"
    assert "numeric_max" in {gate.name for gate in record.gates if not gate.passed}


def test_a_stack_promises_what_its_weakest_part_does() -> None:
    """A lossy architecture is another model, and the reference is that model."""
    slots = {Slot.CACHE, Slot.DECODING, Slot.SCHEDULING}
    assert promised(stack.parse("gqa", PLUGINS), slots) is Exactness.IDENTICAL
    assert promised(stack.parse("gqa+rounded", PLUGINS), slots) is Exactness.LOSSY
    assert promised(stack.parse("gqa", PLUGINS), {Slot.ARCHITECTURE}) is Exactness.LOSSY


@pytest.mark.parametrize("shift", [0, 1])
def test_tokens_of_another_prompt_are_unrelated(shift: int) -> None:
    logits = torch.randn(40, 64, generator=torch.Generator().manual_seed(0)).double() * 3
    near = (logits + torch.randn(40, 64, generator=torch.Generator().manual_seed(1))).argmax(-1)
    found = check_related(logits, near.roll(shift).tolist(), name="related_after")
    assert found.passed is (shift == 0)
    assert not check_related(logits, [], name="related_after").passed
    assert not check_related(torch.ones(2, 4).double(), [0, 1], name="related_after").passed
