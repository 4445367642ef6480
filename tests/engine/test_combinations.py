"""Every architecture, cache, schedule and decoder together: one answer.

The answers come from the architectures' references in float64, without an engine. The toy
techniques under `plugins/` stand for later ones (draft chains and trees, block diffusion,
recurrence, windows, shared layers, chunked prefill, preemption): they must fit without a change to
the loop.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from harness.engine.request import Request
from harness.errors import UnfitError
from harness.technique import load

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

_RANDOM = random.Random(5)
# More requests than slots, lengths on both sides of a piece and of a block, one prompt of 1.
PROMPTS = [tuple(_RANDOM.randrange(60) for _ in range(n)) for n in (5, 17, 1, 30, 8)]
NEWS = (14, 9, 12, 1, 11)
REQUESTS = [Request(i, p, n) for i, (p, n) in enumerate(zip(PROMPTS, NEWS, strict=True))]

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "mha": {"mha": {}},
    "gqa": {"gqa": {"kv_heads": 2}},
    "mqa": {"gqa": {"kv_heads": 1}},
}
RECURRENT: dict[str, dict[str, Any]] = {
    "average": {"toy_average": {}},
    "hybrid": {"toy_average": {"hybrid": True}},
    "mamba": {"mamba": {"state": 3}},
    "conv": {"conv": {"width": 3}},
    "attention and mamba": {"hybrid": {"pattern": "am", "state": 3}},
}
RESTRICTED: dict[str, dict[str, Any]] = {
    "window": {"local": {"window": 6}},
    "alternating": {"local": {"window": 6, "global_every": 2}},
    "latent": {"mla": {}},
    "latent queries": {"mla": {"q_rank": 12, "kv_rank": 20, "rope_dim": 4, "value_dim": 6}},
    "shared": {"cla": {"share": 2}},
    "all": {"gqa": {"kv_heads": 1}, "cla": {"share": 2}, "local": {"window": 3}},
}
STATIC = {"pad_finished": False, "emit_at_end": False}
CLASSIC = {"pad_finished": True, "emit_at_end": True}
SCHEDULES: dict[str, tuple[int, dict[str, Any]]] = {
    "static1": (1, {"static": STATIC}),
    "static4": (4, {"static": STATIC}),
    "classic": (4, {"static": CLASSIC}),
}
PIECES: dict[str, tuple[int, dict[str, Any]]] = {
    "pieces": (4, {"toy_pieces": {"piece": 6}}),
    "preempted": (3, {"toy_pieces": {"piece": 9, "preempt_every": 4}}),
}


@pytest.fixture(scope="module")
def truths(bench: Bench) -> dict[str, list[list[int]]]:
    """Greedy new tokens of every request, by architecture."""
    return {
        name: bench.truth({"architecture": architecture}, PROMPTS, NEWS)
        for name, architecture in (ARCHITECTURES | RECURRENT | RESTRICTED).items()
    }


def _decoding(decoder: str, script: list[list[int]]) -> dict[str, Any]:
    return {decoder: {} if decoder == "autoregressive" else {"script": script}}


def _check(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    truth: list[list[int]],
    architecture: dict[str, Any],
    cache: str,
    schedule: tuple[int, dict[str, Any]],
    decoder: str,
) -> Any:
    slots, scheduling = schedule
    stack = {
        "architecture": architecture,
        "cache": cache,
        "decoding": _decoding(decoder, truth),
        "scheduling": scheduling,
    }
    engine = bench.engine(stack, slots)
    selections: list[list[int]] = []
    select = engine.runner.store.select

    def counted(seq: int, start: int, kept: list[int]) -> None:
        selections.append(kept)
        select(seq, start, kept)

    monkeypatch.setattr(engine.runner.store, "select", counted)
    assert bench.tokens(engine, REQUESTS) == dict(enumerate(truth))
    if decoder != "autoregressive":
        toy: Any = engine.decoder
        # Without both, this would be a slow autoregressive decoder and prove nothing.
        assert toy.accepted > 10
        assert toy.rejected > 10
    assert bool(selections) == (decoder == "toy_tree")
    assert engine.runner.store.held_bytes() == 0
    return engine


@pytest.mark.parametrize("decoder", ["autoregressive", "toy_chain", "toy_tree"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("cache", ["contiguous", "recompute"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_tokens_are_the_references(
    bench: Bench,
    truths: dict[str, list[list[int]]],
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    cache: str,
    schedule: str,
    decoder: str,
) -> None:
    _check(
        bench,
        monkeypatch,
        truths[architecture],
        ARCHITECTURES[architecture],
        cache,
        SCHEDULES[schedule],
        decoder,
    )


@pytest.mark.parametrize("decoder", ["autoregressive", "toy_chain", "toy_tree"])
@pytest.mark.parametrize("schedule", PIECES)
def test_pieces_and_preemption_change_no_token(
    bench: Bench,
    truths: dict[str, list[list[int]]],
    monkeypatch: pytest.MonkeyPatch,
    schedule: str,
    decoder: str,
) -> None:
    engine = _check(
        bench,
        monkeypatch,
        truths["gqa"],
        ARCHITECTURES["gqa"],
        "contiguous",
        PIECES[schedule],
        decoder,
    )
    assert engine.scheduler.pieces > 3
    assert (engine.scheduler.victims > 1) == (schedule == "preempted")


@pytest.mark.parametrize(
    ("architecture", "cache", "schedule", "decoder"),
    [
        *itertools.product(
            RECURRENT, ["contiguous"], SCHEDULES | PIECES, ["autoregressive", "toy_chain"]
        ),
        *itertools.product(
            ["hybrid"], ["recompute"], SCHEDULES, ["autoregressive", "toy_chain"]
        ),
    ],
)  # fmt: skip
def test_recurrent_state_follows_every_rewind(
    bench: Bench,
    truths: dict[str, list[list[int]]],
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    cache: str,
    schedule: str,
    decoder: str,
) -> None:
    _check(
        bench,
        monkeypatch,
        truths[architecture],
        RECURRENT[architecture],
        cache,
        (SCHEDULES | PIECES)[schedule],
        decoder,
    )


@pytest.mark.parametrize("decoder", ["autoregressive", "toy_chain", "toy_tree"])
@pytest.mark.parametrize(
    ("cache", "schedule"),
    [("contiguous", "static4"), ("contiguous", "pieces"), ("recompute", "static4")],
)
@pytest.mark.parametrize("architecture", RESTRICTED)
def test_windows_and_shared_layers(
    bench: Bench,
    truths: dict[str, list[list[int]]],
    monkeypatch: pytest.MonkeyPatch,
    architecture: str,
    cache: str,
    schedule: str,
    decoder: str,
) -> None:
    _check(
        bench,
        monkeypatch,
        truths[architecture],
        RESTRICTED[architecture],
        cache,
        (SCHEDULES | PIECES)[schedule],
        decoder,
    )


@pytest.mark.parametrize("cache", ["contiguous", "recompute"])
@pytest.mark.parametrize("schedule", SCHEDULES | PIECES)
@pytest.mark.parametrize("per_step", [1, 3])
def test_blocks_are_the_brute_force_ones(
    bench: Bench, cache: str, schedule: str, per_step: int
) -> None:
    slots, scheduling = (SCHEDULES | PIECES)[schedule]
    stack = {
        "cache": cache,
        "decoding": {"toy_blocks": {"per_step": per_step}},
        "scheduling": scheduling,
    }
    if cache == "recompute" and schedule in PIECES:
        with pytest.raises(UnfitError, match="earlier pieces"):
            bench.plan(stack)
        return
    engine = bench.engine(stack, slots)
    generate = load("harness.techniques.toy_blocks.reference:generate")
    loaded = bench.weights(bench.plan("mha"))
    loaded["head"] = loaded.get("head", loaded["embed"])
    truth = {
        i: generate(loaded, bench.source.shape, list(p), n, block=4, per_step=per_step)
        for i, (p, n) in enumerate(zip(PROMPTS, NEWS, strict=True))
    }
    assert bench.tokens(engine, REQUESTS) == truth


def test_a_tree_on_recurrent_layers_is_refused(bench: Bench) -> None:
    for architecture in RECURRENT.values():
        with pytest.raises(UnfitError, match="one state a branch"):
            bench.plan({"architecture": architecture, "decoding": "toy_tree"})
