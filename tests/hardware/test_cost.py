"""What cost functions count, against an independent count: torch's FLOPs, and bytes of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from harness import registry, stack
from harness.cost import Cost, Product
from harness.engine.build import build
from harness.engine.request import Request
from harness.hardware.estimate import of_case, step_cost
from harness.model import source
from harness.plan import EnginePlan
from harness.shape import BatchShape
from harness.suite.case import StackSpec
from harness.suite.points import GeneratePoint
from harness.technique import Slot

B, P = 3, 20


# Every technique in the stack that its name alone gives, and some together.
STACKS = [*registry.names(), "gqa(kv_heads=1)", "mha+recompute", "gqa+recompute"]


class Tensors(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Sums the bytes that operations read and write, by name; views and counts apart."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.bytes: dict[str, int] = {}
        self.launches = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        read = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        written = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        name = str(func._schema.name)
        held = {x.untyped_storage().data_ptr() for x in read}
        if name.endswith("_") or not any(x.untyped_storage().data_ptr() in held for x in written):
            self.launches += 1
            size = sum(x.numel() * x.element_size() for x in [*read, *written])
            self.bytes[name] = self.bytes.get(name, 0) + size
        return out


def _planned(spec: str) -> tuple[EnginePlan, StackSpec, Any]:
    parsed = stack.parse(spec)
    found = source.find("tiny", [choice.technique for choice in parsed.architecture])
    parsed = stack.completed(parsed, found)
    plan = stack.resolve(parsed, found, dtype="float32", backend="torch", slots=B, max_tokens=P + 8)
    return plan, parsed, build(plan, found)


@pytest.mark.parametrize("spec", STACKS)
def test_flops_equal_those_of_torch_in_prefill_and_decode(spec: str) -> None:
    plan, parsed, engine = _planned(spec)
    for i in range(B):
        engine.submit(Request(i, tuple(range(1 + i, 1 + i + P)), 4))
    held = 0
    for queries in (P, 1):
        # Of its implementations of attention, torch counts this one on a CPU.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            engine.step()
        counted = counter.get_total_flops()
        batch = BatchShape(B, queries, held)
        ours = step_cost(plan, parsed, batch)
        held += queries
        # torch counts whole squares of attention, of which a causal kernel computes half.
        multiplied = sum(product.flops for product in ours.products)
        ahead = ours.flops - multiplied
        assert counted >= multiplied
        rows = queries if "incremental" in plan.traits else held
        whole = 4 * B * plan.shape.layers * plan.shape.heads * plan.shape.head_dim * rows * held
        if ours.products and not plan.shape.mixers and not any(plan.shape.windows):
            assert counted == pytest.approx(multiplied + whole, rel=1e-9)
            assert whole / 2 <= ahead <= whole


@pytest.mark.parametrize("spec", ["mha", "gqa", "mha+recompute"])
def test_bytes_of_products_equal_those_of_the_tensors(spec: str) -> None:
    """Weights, rows in and rows out of every matrix product, to the byte."""
    plan, parsed, engine = _planned(spec)
    for i in range(B):
        engine.submit(Request(i, tuple(range(1 + i, 1 + i + P)), 4))
    held = 0
    for queries in (P, 1):
        with Tensors() as seen:
            engine.step()
        ours = step_cost(plan, parsed, BatchShape(B, queries, held))
        held += queries
        size = 4
        counted = sum(seen.bytes.get(name, 0) for name in ("aten::mm", "aten::addmm"))
        counted += seen.bytes.get("aten::matmul", 0)
        product_bytes = sum((each.weights + each.activations) * size for each in ours.products)
        # Of two products in a layer, addmm reads the residual beside its operands.
        rows = B * (queries if "incremental" in plan.traits else held)
        residuals = 2 * plan.shape.layers * rows * plan.shape.width * size
        assert counted == product_bytes + residuals
        # The rest is counted as fused kernels would move it: the CPU's norms and rotations, which
        # are composed of several operations, move up to four times as much.
        everything = sum(seen.bytes.values())
        assert ours.bytes < everything < 4 * ours.bytes
        assert ours.launches <= seen.launches < 2.5 * ours.launches


@pytest.mark.parametrize("name", registry.names())
def test_a_grid_costs_what_its_points_cost(name: str) -> None:
    """Cost functions take arrays: no technique may ask `if` of a batch."""
    plan, parsed, _ = _planned(name)
    sequences, queries = np.array([[1.0], [2.0], [7.0]]), np.array([[1.0, 5.0]])
    whole = step_cost(plan, parsed, BatchShape(sequences, queries, 9))  # type: ignore[arg-type]
    for i in range(3):
        for j in range(2):
            batch = BatchShape(int(sequences[i, 0]), int(queries[0, j]), 9)
            one = step_cost(plan, parsed, batch)
            for field in ("flops", "weight_bytes", "state_read_bytes", "state_write_bytes",
                          "state_held_bytes", "activation_bytes", "launches"):  # fmt: skip
                spread = np.broadcast_to(getattr(whole, field), (3, 2))
                assert spread[i, j] == pytest.approx(getattr(one, field)), field


@pytest.mark.parametrize(("queries", "context"), [(1, 0), (1, 5), (1, 40), (7, 0), (7, 3), (20, 9)])
def test_windows_and_shared_layers_cost_what_counting_says(queries: int, context: int) -> None:
    """Pairs of query and key counted one by one; layers 0, 1 and 3, 4 see 6 tokens, 2 sees all."""
    spec = "gqa(kv_heads=2)+cla(share=2)+local(window=6,global_every=3)"
    parsed = stack.parse(spec)
    shape = replace(source.find("tiny", []).shape, layers=6)
    found = source.ModelSource("six", "random", shape)
    plan = stack.resolve(parsed, found, dtype="float32", backend="torch", slots=1, max_tokens=64)
    assert [list(span) for span in plan.shape.spans()] == [[0, 1], [2], [3, 4], [5]]
    work = step_cost(plan, parsed, BatchShape(B, queries, context))

    seen, read, held = 0, 0, 0
    for layer in range(6):
        window = plan.shape.window(layer) or 10**6
        rows = range(context, context + queries)
        keys = [[key for key in range(row + 1) if row - key < window] for row in rows]
        seen += sum(map(len, keys))
        read += len({key for visible in keys for key in visible})
        if layer in (0, 2, 3, 5):
            held += min(context + queries, window)
    entry = 2 * 2 * shape.head_dim * 4
    multiplied = sum(product.flops for product in work.products)
    assert work.flops - multiplied == 4 * B * seen * shape.heads * shape.head_dim
    assert work.state_read_bytes == B * read * entry
    assert work.state_held_bytes == B * held * entry
    assert work.state_write_bytes == B * queries * 4 * entry


def test_the_recipe_of_character_ai_holds_20_times_less_than_grouped_queries() -> None:
    """mqa+cla+local on the shape of Llama 3 8B at 32k tokens; one layer in six sees everything."""
    shape = replace(source.find("llama-3-8b", []).shape, max_len=65536)
    found = source.ModelSource("llama-3-8b", "random", shape)

    def state_bytes(spec: str) -> int:
        parsed = stack.parse(spec)
        plan = stack.resolve(
            parsed, found, dtype="bfloat16", backend="torch", slots=1, max_tokens=32768
        )
        point = GeneratePoint(batch=1, prompt_tokens=32767, new_tokens=1)
        return of_case(plan, parsed, point, None).state_bytes

    recipe = state_bytes("gqa(kv_heads=1)+cla(share=2)+local(window=1024,global_every=6)")
    assert state_bytes("gqa") > 20 * recipe


def test_costs_add_and_scale_with_their_products() -> None:
    one = Cost(flops=2.0, launches=1.0, products=(Product(1, 2, 3),))
    both = one + one * 3
    assert (both.flops, both.launches) == (8.0, 4.0)
    assert [product.count for product in both.products] == [1.0, 3.0]
    assert Cost().intensity == float("inf")


LECTURE: Mapping[tuple[int, int], tuple[float, float]] = {
    # (K, B): ms a step, tokens/s; `reference` table of CS336's lecture 10 at S = 1024 on an H100.
    (40, 1): (8.02, 125),
    (40, 64): (23.8, 2689),
    (40, 256): (71.9, 3562),
    (8, 64): (9.97, 6417),
    (8, 256): (19.6, 13068),
}


def _llama_13b(kv_heads: int) -> tuple[EnginePlan, StackSpec]:
    parsed = stack.parse("mha" if kv_heads == 40 else f"gqa(kv_heads={kv_heads})")
    found = source.find("llama-2-13b", [choice.technique for choice in parsed.architecture])
    plan = stack.resolve(parsed, found, dtype="bfloat16", backend="torch", slots=1, max_tokens=1025)
    return plan, parsed


def test_the_lecture_s_memory_comes_out() -> None:
    """819,200 bytes a token; 26 GB of weights; 54 GB at B=64 and S=1024; 5 times less with K=8."""
    plan, parsed = _llama_13b(40)
    assert step_cost(plan, parsed, BatchShape(1, 1, 0)).state_write_bytes == 819_200
    held = of_case(plan, parsed, GeneratePoint(batch=64, prompt_tokens=1024, new_tokens=1), None)
    assert held.weights_bytes == pytest.approx(26e9, rel=0.01)
    assert held.state_bytes == pytest.approx(54e9, rel=0.01)
    fewer = step_cost(*_llama_13b(8), BatchShape(1, 1, 0)).state_write_bytes
    assert fewer == 819_200 / 5


@pytest.mark.parametrize(("kv_heads", "batch"), LECTURE)
def test_the_table_of_cs336_comes_out_within_a_percent(kv_heads: int, batch: int) -> None:
    """Latency and throughput where everything held is read once a step, at 3.35 TB/s."""
    plan, parsed = _llama_13b(kv_heads)
    point = GeneratePoint(batch=batch, prompt_tokens=1024, new_tokens=1)
    held = of_case(plan, parsed, point, None)
    seconds = (held.weights_bytes + held.state_bytes) / 3.35e12
    latency_ms, throughput = LECTURE[kv_heads, batch]
    assert seconds * 1e3 == pytest.approx(latency_ms, rel=0.01)
    assert batch / seconds == pytest.approx(throughput, rel=0.01)


def test_slots_are_all_covered() -> None:
    assert {registry.get(name).slot for name in registry.names()} == set(Slot)


def test_intensities_are_the_lecture_s() -> None:
    """2.2: a linear layer's is about B where D and F are large; 2.3: attention's is ST/(S+T)."""
    linear = registry.kernel("linear").cost
    for batch in (1, 4, 16, 64):
        got = linear({"B": batch, "D": 8192, "F": 28672}, "bfloat16").intensity
        assert got == pytest.approx(batch, rel=0.02)
    attention = registry.kernel("decode_attention").cost
    for batch in (1, 64):
        shape = {"B": batch, "S": 1024, "N": 32, "K": 32, "H": 128}
        assert attention(shape, "bfloat16").intensity == pytest.approx(1024 / 1025, rel=1e-9)
