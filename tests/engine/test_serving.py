"""Continuous batching over every cache: whoever runs beside a request, its tokens stay the same.

The answers come from the references in float64. Requests come in while others run, the cache is
too small for all of them, and some begin alike.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.engine.build import build
from harness.engine.engine import Engine
from harness.engine.request import Emission, Request, Sampling
from harness.model.layout import layout

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

_RANDOM = random.Random(11)
HEAD = tuple(_RANDOM.randrange(60) for _ in range(13))
PROMPTS = [
    HEAD,
    (*HEAD, 5, 9),
    tuple(_RANDOM.randrange(60) for _ in range(30)),
    (*HEAD, 5, 9, 33, 2, 1, 7),
    (8,),
    (*HEAD[:8], 4),
]
NEWS = (12, 14, 3, 9, 16, 11)
REQUESTS = [Request(i, p, n) for i, (p, n) in enumerate(zip(PROMPTS, NEWS, strict=True))]
LONGEST = 46

CACHES: dict[str, Any] = {
    "contiguous": "contiguous",
    "paged": {"paged": {"block": 4}},
    "shared": {"paged": {"block": 4, "share": True}},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "decode-first": {},
    "prefill-first": {"first": "prefill"},
    "chunked": {"chunk": True, "budget": 7},
    "chunked-prefill-first": {"chunk": True, "budget": 7, "first": "prefill"},
    "narrow": {"budget": 6},
    "shortest": {"policy": "shortest"},
    "swapped": {"preempt": "swap", "headroom": 0.0},
    "recomputed": {"headroom": 0.0},
}
# Tokens that fit into the cache: for some schedules fewer than the requests need together.
TIGHT = {"swapped": 40, "recomputed": 40, "chunked": 80}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gqa": {"gqa": {"kv_heads": 2}},
    "hybrid": {"toy_average": {"hybrid": True}},
}


def _engine(
    bench: Bench, stack: Mapping[str, Any], slots: int = 4, tokens: int | None = None
) -> Engine:
    """An engine whose cache holds so many tokens; None: as many as its slots need."""
    plan = bench.plan(stack, slots, LONGEST)
    if tokens is not None:
        entry = 4 * sum(group.entry_numbers for group in layout(plan.shape)[0])
        plan = replace(plan, limits=replace(plan.limits, state_bytes=tokens * entry))
    engine = build(plan, bench.source, seed=3)
    assert isinstance(engine, Engine)
    return engine


def _serve(engine: Engine, requests: Sequence[Request], every: int = 2) -> list[Emission]:
    """Submit a request every so many steps, and run to the end."""
    emissions: list[Emission] = []
    waiting = list(requests)
    step = 0
    while engine.has_work or waiting:
        if waiting and step % every == 0:
            engine.submit(waiting.pop(0))
        emissions += engine.step()
        step += 1
        assert step < 1000, "the engine never ends"
    return emissions


def _tokens(emissions: Sequence[Emission]) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for emission in emissions:
        found.setdefault((emission.request_id, emission.sample), []).extend(emission.token_ids)
    return found


@pytest.fixture(scope="module")
def truths(bench: Bench) -> dict[str, list[list[int]]]:
    return {
        name: bench.truth({"architecture": architecture}, PROMPTS, NEWS)
        for name, architecture in ARCHITECTURES.items()
    }


def _empty(engine: Engine) -> None:
    """Nothing is left behind, in tables and pools neither."""
    assert engine.runner.store.held_bytes() == 0
    for tables in getattr(engine.runner.store.tokens, "_tables", []):
        tables.check()
        assert tables.blocks.held == 0


@pytest.mark.parametrize("decoder", ["autoregressive", "toy_chain", "toy_tree"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_tokens_are_the_references(
    bench: Bench,
    truths: dict[str, list[list[int]]],
    architecture: str,
    cache: str,
    schedule: str,
    decoder: str,
) -> None:
    if architecture == "hybrid" and decoder == "toy_tree":
        # Refused at planning, see test_combinations.
        return
    truth = truths[architecture]
    decoding = {decoder: {} if decoder == "autoregressive" else {"script": truth}}
    stack = {
        "architecture": ARCHITECTURES[architecture],
        "cache": CACHES[cache],
        "decoding": decoding,
        "scheduling": {"continuous": SCHEDULES[schedule]},
    }
    tight = TIGHT.get(schedule) if cache != "contiguous" else None
    engine = _engine(bench, stack, tokens=tight)
    emissions = _serve(engine, REQUESTS, every=1 if tight else 2)
    assert _tokens(emissions) == {(i, 0): tokens for i, tokens in enumerate(truth)}
    _empty(engine)
    counts = engine.counters()
    # A schedule that was never put to the test would prove nothing.
    if schedule == "swapped" and tight:
        assert counts["swaps_out"] == counts["swaps_in"] > 0
    if schedule == "recomputed" and tight:
        assert counts["preemptions"] > 0
    if schedule.startswith("chunked"):
        assert counts["chunks"] > 2
    if cache == "shared" and architecture == "gqa":
        assert counts["prefix_found"] >= 8
    else:
        assert counts["prefix_found"] == 0


@pytest.mark.parametrize("decoder", ["autoregressive", "toy_tree"])
@pytest.mark.parametrize("scheduling", ["static", "continuous"])
@pytest.mark.parametrize("policy", ["max", "pow2", "oracle"])
def test_reserving_ahead_changes_no_token(
    bench: Bench, truths: dict[str, list[list[int]]], policy: str, scheduling: str, decoder: str
) -> None:
    """And needs no preemption: who enters has room for all that it will hold."""
    truth = truths["gqa"]
    stack = {
        "architecture": ARCHITECTURES["gqa"],
        "cache": {"paged": {"block": 4, "reservation": policy}},
        "decoding": {decoder: {} if decoder == "autoregressive" else {"script": truth}},
        "scheduling": scheduling,
    }
    engine = _engine(bench, stack, tokens=128)
    emissions = _serve(engine, REQUESTS, every=1)
    assert _tokens(emissions) == {(i, 0): tokens for i, tokens in enumerate(truth)}
    _empty(engine)
    assert engine.counters().get("preemptions", 0) == 0


@pytest.mark.parametrize("schedule", ["decode-first", "recomputed", "swapped", "static"])
@pytest.mark.parametrize("cache", CACHES)
def test_sampled_tokens_do_not_depend_on_the_schedule(
    bench: Bench, cache: str, schedule: str
) -> None:
    requests = [
        replace(r, sampling=Sampling(temperature=0.8, seed=r.id), max_new_tokens=10)
        for r in REQUESTS
    ]
    scheduling = "static" if schedule == "static" else {"continuous": SCHEDULES[schedule]}
    stack = {"cache": CACHES[cache], "scheduling": scheduling}
    tight = TIGHT.get(schedule) if cache != "contiguous" else None
    alone = _tokens(_serve(_engine(bench, {"cache": "recompute"}, slots=1), requests, every=100))
    assert _tokens(_serve(_engine(bench, stack, tokens=tight), requests)) == alone


@pytest.mark.parametrize("scheduling", ["static", "continuous", "tight"])
@pytest.mark.parametrize("cache", CACHES)
def test_several_answers_to_one_prompt(bench: Bench, cache: str, scheduling: str) -> None:
    """Each is what a request of its own with that noise would get; the prompt is held once."""
    tight = scheduling == "tight"
    stack = {"cache": CACHES[cache], "scheduling": "continuous" if tight else scheduling}
    slots = 2 if cache == "contiguous" and tight else 6
    engine = _engine(bench, stack, slots, tokens=44 if tight and cache != "contiguous" else None)
    many = Request(3, PROMPTS[1], 9, Sampling(temperature=0.9, seed=77), samples=4)
    other = Request(4, PROMPTS[2][:5], 6, Sampling(temperature=0.9, seed=5))
    found = _tokens(_serve(engine, [many, other]))
    answers = [found[3, sample] for sample in range(4)]
    assert len({tuple(answer) for answer in answers}) > 2
    single = _engine(bench, {"cache": "recompute"}, slots=1)
    for sample, answer in enumerate(answers):
        seed = 77 if sample == 0 else _seed(77, sample)
        request = replace(many, samples=1, sampling=Sampling(temperature=0.9, seed=seed))
        assert _tokens(_serve(single, [request])) == {(3, 0): answer}
    assert _tokens(_serve(single, [other])) == {(4, 0): found[4, 0]}
    _empty(engine)
    if cache != "contiguous" and not tight:
        assert engine.counters()["blocks_copied"] > 0


def _seed(seed: int, sample: int) -> int:
    from harness.engine.sampling import branch_seed

    return branch_seed(seed, sample)


def test_a_shared_prompt_takes_its_room_once(bench: Bench) -> None:
    stack = {"cache": {"paged": {"block": 4}}, "scheduling": "continuous"}
    engine = _engine(bench, stack, slots=8)
    engine.submit(Request(0, PROMPTS[2], 4, samples=4))
    engine.step()
    # 30 tokens in 8 blocks, held by all four; nobody has written yet.
    assert engine.counters()["running"] == 4
    assert engine.counters()["places_held"] == 32
    engine.step()
    # Each now has a last block of its own.
    assert engine.counters()["places_held"] == 28 + 4 * 4
    entry = 2 * 2 * 4 * 8 * 4
    assert engine.memory().state_bytes == (28 + 4 * 3) * entry


def test_what_cannot_ever_fit_is_refused_and_the_others_go_on(
    bench: Bench, truths: dict[str, list[list[int]]]
) -> None:
    stack = {
        "architecture": ARCHITECTURES["gqa"],
        "cache": {"paged": {"block": 4}},
        "scheduling": "continuous",
    }
    engine = _engine(bench, stack, tokens=24)
    requests = [REQUESTS[0], Request(7, PROMPTS[2], 9), REQUESTS[5]]
    emissions = _serve(engine, requests)
    refused = [e for e in emissions if e.reason == "refused"]
    assert [(e.request_id, e.sentence) for e in refused] == [
        (7, "request 7 needs 39 tokens, and the whole cache holds 24")
    ]
    truth = truths["gqa"]
    assert _tokens([e for e in emissions if e.token_ids]) == {(0, 0): truth[0], (5, 0): truth[5]}


def test_a_stop_condition_is_met_at_its_step(bench: Bench) -> None:
    """A request that ends makes room at once, for the one that waits."""
    engine = _engine(bench, {"scheduling": "continuous"}, slots=2)
    for i, new in enumerate((2, 5, 3)):
        engine.submit(Request(i, PROMPTS[4], new))
    sizes = []
    while engine.has_work:
        engine.step()
        sizes.append(engine.counters()["batch"])
    assert sizes == [2, 2, 2, 2, 2]


def _itl_steps(bench: Bench, options: Mapping[str, Any]) -> list[list[int]]:
    """Who emits at each step, when a long prompt comes while a request decodes."""
    stack = {"scheduling": {"continuous": options}}
    engine = _engine(bench, stack)
    engine.submit(Request(0, PROMPTS[4], 8))
    engine.step()
    engine.submit(Request(1, PROMPTS[2], 2))
    found = []
    while engine.has_work:
        found.append(sorted(e.request_id for e in engine.step()))
    return found


def test_who_waits_when_a_long_prompt_comes(bench: Bench) -> None:
    """Lecture 4: prefill first holds the running request up, decode first the prompt, and pieces
    hold up neither."""
    mixed = _itl_steps(bench, {})
    assert mixed[0] == [0, 1]
    prefill_first = _itl_steps(bench, {"first": "prefill"})
    assert prefill_first[:2] == [[1], [0, 1]]
    decode_first = _itl_steps(bench, {"budget": 20})
    assert decode_first == [*[[0]] * 7, [1], [1]]
    pieces = _itl_steps(bench, {"budget": 11, "chunk": True})
    assert pieces[:3] == [[0], [0], [0, 1]]


@pytest.mark.parametrize(
    ("options", "emitted"),
    [({}, [[0, 1], [0, 1]]), ({"budget": 8}, [[0], [0]]), ({"chunk": True}, [[0], [0]])],
)
def test_without_a_budget_the_longest_prompt_enters_beside_others(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    emitted: list[list[int]],
) -> None:
    """With a smaller one it waits until nothing else runs, or comes in pieces."""
    monkeypatch.setattr("harness.techniques.continuous.scheduler.LEAST_BUDGET", 8)
    assert _itl_steps(bench, options)[:2] == emitted


def test_the_shortest_prompt_enters_first(bench: Bench) -> None:
    entered: dict[str, list[int]] = {}
    for policy in ("fcfs", "shortest"):
        engine = _engine(bench, {"scheduling": {"continuous": {"policy": policy}}}, slots=1)
        for request in REQUESTS:
            engine.submit(replace(request, max_new_tokens=2))
        entered[policy] = []
        while engine.has_work:
            engine.step()
            entered[policy] += engine.entered
    assert entered["fcfs"] == [0, 1, 2, 3, 4, 5]
    assert entered["shortest"] == [4, 5, 0, 1, 3, 2]


def test_admission_leaves_room_to_grow_beside_who_runs(bench: Bench) -> None:
    """Ten blocks of four: 13 tokens run, 15 more would leave eight places free."""
    running = {}
    for headroom in (0.0, 0.3):
        stack = {
            "cache": {"paged": {"block": 4}},
            "scheduling": {"continuous": {"headroom": headroom}},
        }
        engine = _engine(bench, stack, tokens=40)
        for request in REQUESTS[:2]:
            engine.submit(request)
        engine.step()
        running[headroom] = engine.counters()["running"]
        # Alone a request enters whatever it leaves.
        alone = _engine(bench, stack, tokens=40)
        alone.submit(Request(0, PROMPTS[2], 2))
        alone.step()
        assert alone.counters()["running"] == 1
    assert running == {0.0: 2, 0.3: 1}


def test_found_prefixes_are_not_fed_again(bench: Bench) -> None:
    stack = {"cache": {"paged": {"block": 4, "share": True}}, "scheduling": "continuous"}
    engine = _engine(bench, stack)
    fed = []
    for request in (REQUESTS[1], REQUESTS[3]):
        engine.submit(replace(request, max_new_tokens=1))
        engine.step()
        fed.append(engine.counters()["fed"])
    # 15 tokens; then 12 of 19 are found, three whole blocks.
    assert fed == [15, 7]
    engine.reset()
    engine.submit(replace(REQUESTS[3], max_new_tokens=1))
    engine.step()
    assert engine.counters()["fed"] == 19


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("scheduling", ["static", "continuous"])
def test_reset_leaves_nothing(bench: Bench, cache: str, scheduling: str) -> None:
    engine = _engine(bench, {"cache": CACHES[cache], "scheduling": scheduling})
    runs = []
    for _ in range(2):
        for request in REQUESTS:
            engine.submit(request)
        for _ in range(3):
            engine.step()
        engine.reset()
        _empty(engine)
        runs.append(_tokens(_serve(engine, REQUESTS)))
        engine.reset()
    assert runs[0] == runs[1]


def test_places_held_are_at_most_a_block_a_sequence_more_than_used(bench: Bench) -> None:
    stack = {"cache": {"paged": {"block": 4}}, "scheduling": "continuous"}
    engine = _engine(bench, stack)
    for request, _ in itertools.product(REQUESTS, range(2)):
        engine.submit(replace(request, id=request.id + 10 * _))
    seen = 0
    while engine.has_work:
        engine.step()
        counts = engine.counters()
        assert 0 <= counts["places_held"] - counts["places_used"] <= 3 * counts["running"]
        seen = max(seen, counts["places_used"])
    assert seen > 60
