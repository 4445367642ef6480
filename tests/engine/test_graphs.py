"""Captured decode steps: everything a replay reads lies in static buffers, and tokens stay.

The replayer here is a graph on a CPU: it records every operation with the very tensors and numbers
that it was given, makes the same operations again on the same memory, and refuses to tell the host
a number while it records. What a step took from a Python list would be frozen, as in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness import stack as stacks
from harness.engine import build as build_module
from harness.engine import graphs as graphs_module
from harness.engine.build import build
from harness.engine.capture import Captured
from harness.engine.engine import Engine
from harness.engine.graphs import bucket
from harness.engine.request import Request
from harness.errors import UnfitError
from harness.fit import uncapturable
from harness.kernel import KernelSpec, implementation
from harness.model import building
from harness.model.source import ModelSource
from harness.plan import EnginePlan
from harness.shape import ModelShape

SHAPE = ModelShape(
    vocab=61, width=32, layers=3, heads=4, kv_heads=2, head_dim=8, ff=48, max_len=256
)
SOURCE = ModelSource(name="random", kind="random", shape=SHAPE)
SLOTS = 6
STACKS = (
    "gqa(kv_heads=2)",
    "gqa(kv_heads=2)+continuous",
    "gqa(kv_heads=2)+paged(block=4)",
    "gqa(kv_heads=2)+paged(block=4)+continuous",
    "local(window=5)+paged(block=4)",
    "cla",
)


# How the host asks for a number; `tolist` of a tensor in host memory goes past every dispatcher.
ASKING = (
    torch.ops.aten._local_scalar_dense.default,
    torch.ops.aten.item.default,
    torch.ops.aten.is_nonzero.default,
)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Keeps every operation with its arguments and outputs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self.made: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in ASKING:
            raise RuntimeError("a captured step asked the device for a number")
        returned = func(*args, **(kwargs or {}))
        self.made.append((func, args, kwargs or {}, returned))
        return returned

    def again(self) -> None:
        for func, args, kwargs, returned in self.made:
            anew = func(*args, **kwargs)
            for old, new in zip(tree_leaves(returned), tree_leaves(anew), strict=True):
                # Views and results in place lie where they lay.
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def replayer(work: Callable[[], Any]) -> Captured:
    with Recorder() as recorder:
        output = work()
    # As in a graph: capturing computes nothing that may be used.
    output.fill_(torch.nan)
    return Captured(recorder.again, output)


def attention_on_device(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, lens: Tensor, scale: float,
    cu_seqlens: Tensor | None = None, causal_block: int = 1, window: int = 0, *_: Any,
    lengths: Any = None, **__: Any,
) -> Tensor:  # fmt: skip
    """Decode attention by operations alone, over the whole capacity: nothing is asked."""
    from harness.kernels.decode_attention.eager import decode_attention

    if lengths is not None:
        return decode_attention(
            q, k, v, table, lens, scale, cu_seqlens, causal_block, window, *_, lengths=lengths
        )
    (B, N, H), K = q.shape, k.shape[1]
    keys, values = (pool[table.long()].transpose(1, 2).flatten(2, 3) for pool in (k, v))
    scores = torch.einsum("bkgh,bksh->bkgs", q.view(B, K, N // K, H), keys) * scale
    at = torch.arange(scores.shape[-1], device=q.device)
    seen = at < lens[:, None]
    if window:
        seen = seen & (at >= lens[:, None] - window)
    weights = scores.masked_fill(~seen[:, None, None], -torch.inf).softmax(-1).nan_to_num(0.0)
    return torch.einsum("bkgs,bksh->bkgh", weights, values).reshape(B, N, H)


def write_on_device(
    qkv: Tensor, cos: Tensor, sin: Tensor, k_pool: Tensor | None = None, *where: Any
) -> Any:
    """Rotation and write by operations alone; rows without a place change nothing."""
    from harness.kernels.rope_write.eager import rope_write, rotate

    if k_pool is None:
        return rope_write(qkv, cos, sin, None, None, None, None)
    v_pool, pages, offsets = where
    P, K, block, _ = k_pool.shape
    N = qkv.shape[1] - 2 * K
    turned = rotate(qkv[:, : N + K], cos[:, None], sin[:, None])
    hit = (pages[:, None] == torch.arange(P))[:, :, None] & (
        offsets[:, None] == torch.arange(block)
    )[:, None, :]  # [T, P, block]
    for pool, rows in ((k_pool, turned[:, N:]), (v_pool, qkv[:, N + K :])):
        written = torch.einsum("tpb,tkh->pkbh", hit.to(rows.dtype), rows)
        pool.copy_(torch.where(hit.any(0)[:, None, :, None], written, pool))
    return turned[:, :N], k_pool, v_pool


STAND_INS: dict[str, Callable[..., Any]] = {
    "decode_attention": attention_on_device,
    "rope_write": write_on_device,
}


@pytest.fixture(autouse=True)
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backend "triton" without Triton: kernels that ask the host for nothing."""

    def chosen(spec: KernelSpec, backend: str) -> tuple[str, Callable[..., Any]]:
        used, function = implementation(spec, "torch")
        if backend == "torch":
            return used, function
        return "triton", STAND_INS.get(spec.name, function)

    for module in (building, build_module):
        monkeypatch.setattr(module, "implementation", chosen)


def plan(stack: str, backend: str = "triton") -> EnginePlan:
    return stacks.resolve(
        stacks.parse(stack), SOURCE, dtype="float64", backend=backend, slots=SLOTS, max_tokens=24
    )


def engine(stack: str, capture: Any = None) -> Engine:
    made = build(plan(stack), SOURCE, seed=3, capture=capture)
    assert isinstance(made, Engine)
    return made


def serve(made: Engine, lengths: Sequence[tuple[int, int]], first: int = 0) -> dict[int, list[int]]:
    """Greedy tokens of requests with so many prompt and new tokens."""
    for i, (prompt, new) in enumerate(lengths):
        made.submit(Request(first + i, tuple((7 * i + j) % 61 for j in range(prompt)), new))
    tokens: dict[int, list[int]] = {first + i: [] for i in range(len(lengths))}
    while made.has_work:
        for emission in made.step():
            tokens[emission.request_id].extend(emission.token_ids)
    return tokens


RAGGED = [(3, 9), (11, 4), (1, 12), (6, 6), (2, 2)]


@pytest.mark.parametrize("stack", STACKS)
def test_tokens_are_the_same_with_and_without(stack: str) -> None:
    plain, captured = engine(stack), engine(stack, replayer)
    for lengths in (RAGGED, RAGGED[::-1], [(4, 8)] * 6, [(5, 7)]):
        assert serve(captured, lengths) == serve(plain, lengths)
    found = captured.counters()
    assert found["graph_steps"] > 20
    # Batches of one to six sequences share the buckets 1, 2, 4 and 6.
    assert found["graph_buckets"] == 4


def test_buckets_are_powers_of_two_and_all_slots() -> None:
    assert [bucket(size, 6) for size in range(1, 7)] == [1, 2, 4, 4, 6, 6]
    assert bucket(1, 1) == 1


def test_rows_of_padding_change_nothing() -> None:
    """A bucket of 4 with 3 sequences, after 4 were in it: the fourth's slot keeps its entries."""
    captured = engine("gqa(kv_heads=2)+continuous", replayer)
    serve(captured, [(4, 6)] * 4)
    # The contiguous cache's own pools, of which the slot's type knows nothing.
    pools = captured.runner.store.tokens._pools[0]  # type: ignore[union-attr]
    before = [pool[3].clone() for pool in pools]
    assert all(bool(entries.any()) for entries in before)
    serve(captured, [(4, 6)] * 3, first=10)
    assert all(torch.equal(pool[3], entries) for pool, entries in zip(pools, before, strict=True))


def test_a_replay_reads_nothing_that_a_batch_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between load and replay everything the step was given is ruined: only buffers are read."""
    plain = engine("gqa(kv_heads=2)+paged(block=4)")
    captured = engine("gqa(kv_heads=2)+paged(block=4)", replayer)
    load = graphs_module._Step.load

    def ruined(self: Any, batch: Any, store: Any) -> None:
        load(self, batch, store)
        to, held = store.destinations(0), store.pages(0)
        for tensor in (to.pages, to.offsets, held.table, held.lens, batch.token_tensor):
            tensor.fill_(2)
        batch.positions[:] = [0] * batch.size
        batch.tokens[:] = [0] * batch.size

    monkeypatch.setattr(graphs_module._Step, "load", ruined)
    assert serve(captured, RAGGED) == serve(plain, RAGGED)


def test_a_step_that_takes_a_number_from_the_host_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replayer's own teeth: rope rows looked up once, or lengths asked for, do not survive."""
    from harness.model.rope import RopeTable

    of = RopeTable.of
    first: dict[int, Any] = {}

    def frozen(self: Any, batch: Any) -> Any:
        if batch.captured is None:
            return of(self, batch)
        return first.setdefault(id(batch), self.at(batch.captured.tolist()))

    plain = serve(engine("gqa(kv_heads=2)"), RAGGED)
    monkeypatch.setattr(RopeTable, "of", frozen)
    assert serve(engine("gqa(kv_heads=2)", replayer), RAGGED) != plain

    def asking(*args: Any, **kwargs: Any) -> Tensor:
        int(args[4].max())
        return attention_on_device(*args, **kwargs)

    monkeypatch.setattr(RopeTable, "of", of)
    monkeypatch.setitem(STAND_INS, "decode_attention", asking)
    with pytest.raises(RuntimeError, match="asked the device for a number"):
        serve(engine("gqa(kv_heads=2)", replayer), RAGGED)


def test_what_was_wrapped_around_a_captured_step_is_dropped_with_it() -> None:
    captured = engine("gqa(kv_heads=2)", replayer)
    serve(captured, [(4, 4)] * 2)
    assert captured.counters()["graph_buckets"] == 4
    captured.forget_captured()
    assert captured.counters()["graph_buckets"] == 0
    assert serve(captured, RAGGED) == serve(engine("gqa(kv_heads=2)"), RAGGED)


@pytest.mark.parametrize(
    ("stack", "backend", "sentence"),
    [
        ("gqa(kv_heads=2)+recompute", "triton", "without a cache every step feeds more tokens"),
        ("mamba", "triton", "choose their work in Python at every step"),
        ("mla", "triton", "choose their work in Python at every step"),
        ("local(window=5)", "triton", "entries of a window move about in a contiguous cache"),
        ("gqa(kv_heads=2)", "torch", "on backend torch a step asks the host for its lengths"),
    ],
)
def test_a_stack_that_cannot_be_captured_says_why(stack: str, backend: str, sentence: str) -> None:
    made = plan(stack, backend)
    assert sentence in (uncapturable(made) or "")
    with pytest.raises(UnfitError, match="cuda_graph: "):
        build(made, SOURCE, seed=3, capture=replayer)
