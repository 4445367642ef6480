"""Memory, time and floors by shapes, against the lecture's worked examples."""

import pytest

from harness import stack
from harness.hardware.ceilings import Ceilings
from harness.hardware.estimate import Estimate, floor_seconds, of_case, step_cost
from harness.model import source
from harness.plan import EnginePlan
from harness.shape import BatchShape, DTypeName
from harness.suite.case import StackSpec
from harness.suite.points import GeneratePoint

H100 = Ceilings(bandwidth_bytes_per_s=3.35e12, flops_per_s={"bfloat16": 989e12}, source="datasheet")


def resolved(
    spec: str, model: str, dtype: DTypeName = "bfloat16", slots: int = 1, max_tokens: int = 1025
) -> tuple[EnginePlan, StackSpec]:
    parsed = stack.parse(spec)
    found = source.find(model, [choice.technique for choice in parsed.architecture])
    plan = stack.resolve(
        parsed, found, dtype=dtype, backend="torch", slots=slots, max_tokens=max_tokens
    )
    return plan, parsed


def estimate(spec: str, point: GeneratePoint, model: str = "llama-2-13b") -> Estimate:
    tokens = point.prompt_tokens + point.new_tokens
    return of_case(*resolved(spec, model, slots=point.batch, max_tokens=tokens), point, H100)


def test_llama_2_13b_as_in_the_lecture() -> None:
    """Section 3.3: 819,200 bytes a token, about 54 GB at B = 64 and S = 1024, weights 26 GB."""
    one = estimate("mha", GeneratePoint(batch=1, prompt_tokens=1, new_tokens=1))
    assert one.state_bytes == 819_200
    full = estimate("mha", GeneratePoint(batch=64, prompt_tokens=1024, new_tokens=1))
    assert full.state_bytes == 64 * 1024 * 819_200
    assert full.state_bytes == pytest.approx(54e9, rel=0.01)
    assert full.weights_bytes == pytest.approx(26e9, rel=0.005)
    assert full.state_bytes + full.weights_bytes == pytest.approx(80e9, rel=0.01)


def test_grouped_queries_divide_the_state_by_their_group() -> None:
    """Section 5.1: K = 8 of 40 heads cuts 54 GB to 11 GB."""
    point = GeneratePoint(batch=64, prompt_tokens=1000, new_tokens=25)
    mha, gqa = (estimate(spec, point) for spec in ("mha", "gqa(kv_heads=8)"))
    assert mha.state_bytes == 5 * gqa.state_bytes
    assert gqa.state_bytes == pytest.approx(11e9, rel=0.03)


def test_state_stops_one_token_before_the_end() -> None:
    point = GeneratePoint(batch=3, prompt_tokens=10, new_tokens=6)
    assert estimate("mha", point).state_bytes == 3 * 15 * 819_200
    assert estimate("mha", point).reserved_bytes == 3 * 16 * 819_200


def test_recompute_holds_no_state_and_takes_longer() -> None:
    point = GeneratePoint(batch=8, prompt_tokens=512, new_tokens=64)
    cached, again = estimate("mha", point), estimate("mha+recompute", point)
    assert again.state_bytes == again.reserved_bytes == 0
    assert cached.seconds_per_repetition is not None
    assert again.seconds_per_repetition is not None
    assert again.seconds_per_repetition > 3 * cached.seconds_per_repetition


def test_time_is_unknown_without_ceilings() -> None:
    point = GeneratePoint(batch=1, prompt_tokens=8, new_tokens=4)
    plan, parsed = resolved("mha", "llama-2-13b")
    assert of_case(plan, parsed, point, None).seconds_per_repetition is None


def test_intensity_of_decode_is_the_batch_for_weights_and_below_one_for_state() -> None:
    """Sections 2.2 and 2.3: B for the matrices, ST/(S+T) for attention, whatever the batch."""
    plan, parsed = resolved("mha", "llama-2-13b")
    empty = step_cost(plan, parsed, BatchShape(8, 1, 0))
    assert empty.flops / empty.weight_bytes == pytest.approx(8, rel=0.01)
    S = 4096
    for B in (1, 64):
        one, other = (step_cost(plan, parsed, BatchShape(B, 1, held)) for held in (0, S))
        flops = other.flops - one.flops
        read = other.state_read_bytes - one.state_read_bytes
        assert flops / read == pytest.approx(S / (S + 1), rel=0.01)


def test_floor_of_decode_is_its_bytes_and_of_prefill_its_flops() -> None:
    plan, parsed = resolved("mha", "llama-2-13b")
    step = BatchShape(1, 1, 1024)
    work = step_cost(plan, parsed, step)
    seconds = (work.weight_bytes + work.state_read_bytes) / 3.35e12
    assert floor_seconds(plan, step, H100, parsed) == pytest.approx(seconds)
    prefill = BatchShape(8, 2048, 0)
    seconds = step_cost(plan, parsed, prefill).flops / 989e12
    assert floor_seconds(plan, prefill, H100, parsed) == pytest.approx(seconds)


def test_floor_of_recompute_counts_no_state() -> None:
    """Keys and values that nothing keeps need not move, so they may not raise the floor."""
    free = H100.model_copy(update={"flops_per_s": {}})
    plan, parsed = resolved("mha+recompute", "llama-2-13b")
    short, long = (floor_seconds(plan, BatchShape(4, 1, S), free, parsed) for S in (1, 1000))
    assert short == long


@pytest.mark.parametrize("spec", ["mha", "gqa", "gqa+recompute"])
def test_weights_and_state_equal_the_engines_own(spec: str) -> None:
    from harness.engine.build import build
    from harness.engine.request import Request

    point = GeneratePoint(batch=2, prompt_tokens=5, new_tokens=3)
    plan, parsed = resolved(spec, "tiny", "float32", slots=2, max_tokens=8)
    found = source.find("tiny", [choice.technique for choice in parsed.architecture])
    engine = build(plan, found)
    expected = of_case(plan, parsed, point, None)
    for i in range(point.batch):
        engine.submit(Request(i, tuple(range(1, 1 + point.prompt_tokens)), point.new_tokens))
    held = 0
    # What was held at the end is only looked at for an observer.
    engine.observer = lambda *_: None
    while engine.has_work:
        engine.step()
        held = max(held, engine.memory().state_bytes)
    assert engine.memory().weights_bytes == expected.weights_bytes
    assert engine.memory().reserved_bytes == expected.reserved_bytes
    assert held == expected.state_bytes
