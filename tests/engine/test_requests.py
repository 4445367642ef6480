"""What a request gets: its tokens, its reason, its bytes, and nothing of anybody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

from harness.engine.engine import Engine
from harness.engine.request import Emission, Request, Sampling
from harness.errors import UnfitError

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

PROMPTS = [(7, 11, 2, 40, 5), (3, 9, 9, 58, 21, 30, 4), (13,)]
CLASSIC = "static(pad_finished=true,emit_at_end=true)"


@pytest.fixture(scope="module")
def truth(bench: Bench) -> list[list[int]]:
    """Twelve greedy tokens after each prompt."""
    return bench.truth("mha", PROMPTS, [12] * 3)


def _finals(steps: list[list[Emission]]) -> dict[int, Emission]:
    return {e.request_id: e for step in steps for e in step if e.finished}


def test_a_request_ends_at_its_length(bench: Bench, truth: list[list[int]]) -> None:
    engine = bench.engine("mha")
    steps = bench.run(engine, [Request(i, p, 3 + i) for i, p in enumerate(PROMPTS)])
    assert _finals(steps) == {
        i: Emission(i, (truth[i][2 + i],), finished=True, reason="length") for i in range(3)
    }
    assert [len(step) for step in steps] == [3, 3, 3, 2, 1]


def test_the_first_token_may_be_the_last(bench: Bench, truth: list[list[int]]) -> None:
    steps = bench.run(bench.engine("mha"), [Request(0, PROMPTS[0], 1)])
    assert steps == [[Emission(0, (truth[0][0],), finished=True, reason="length")]]


@pytest.mark.parametrize("schedule", ["static", "static(pad_finished=true)"])
@pytest.mark.parametrize("place", [0, 3, 5, 11])
def test_end_of_sequence_inside_an_accepted_run(
    bench: Bench, truth: list[list[int]], place: int, schedule: str
) -> None:
    """Tokens behind it are neither emitted nor held, though the model accepted them; a padded
    row goes on from there (it once had a negative number of tokens to feed)."""
    eos = truth[0][place]
    place = truth[0].index(eos)
    stack = {
        "decoding": {"toy_chain": {"script": truth, "wrong_every": 100, "length": 4}},
        "scheduling": schedule,
    }
    engine = bench.engine(stack)
    requests = [Request(0, PROMPTS[0], 12, eos=eos), Request(1, PROMPTS[1], 12)]
    emissions = [e for step in bench.run(engine, requests) for e in step]
    own = [e for e in emissions if e.request_id == 0]
    assert [t for e in own for t in e.token_ids] == truth[0][: place + 1]
    assert [e.reason for e in own if e.finished] == ["eos"]
    assert [t for e in emissions if e.request_id == 1 for t in e.token_ids] == truth[1]


def test_state_behind_an_end_of_sequence_is_not_counted(
    bench: Bench, truth: list[list[int]]
) -> None:
    stack = {"decoding": {"toy_chain": {"script": truth, "wrong_every": 100, "length": 8}}}
    engine = bench.engine(stack)
    place = 2
    assert truth[0].index(truth[0][place]) == place
    engine.observer = Log()
    bench.run(engine, [Request(0, PROMPTS[0], 12, eos=truth[0][place])])
    assert engine.memory().state_bytes == (len(PROMPTS[0]) + place) * _entry_bytes(engine)


def _entry_bytes(engine: Engine) -> int:
    """L K H 2 numbers of four bytes: what one token holds."""
    groups = engine.runner.model.token_states
    return sum(group.entry_numbers for group in groups) * 4


@pytest.mark.parametrize(
    "request_",
    [
        Request(0, (1,) * 30, 3),
        Request(0, (), 3),
        Request(0, (1, 2), 0),
        Request(0, (1, 2), -1),
    ],
    ids=["too-long", "empty-prompt", "nothing-asked", "less-than-nothing"],
)
def test_a_refusal_is_delivered_once(bench: Bench, request_: Request) -> None:
    engine = bench.engine("mha")
    engine.submit(request_)
    assert engine.has_work
    assert engine.step() == [Emission(0, (), finished=True, reason="refused")]
    assert not engine.has_work
    assert engine.step() == []


def test_a_refusal_disturbs_nobody(bench: Bench, truth: list[list[int]]) -> None:
    engine = bench.engine(f"mha+{CLASSIC}")
    requests = [Request(0, PROMPTS[0], 12), Request(1, (1,) * 40, 9), Request(2, PROMPTS[2], 12)]
    steps = bench.run(engine, requests)
    assert steps[0] == [Emission(1, (), finished=True, reason="refused")]
    assert {e.request_id: list(e.token_ids) for e in steps[-1]} == {0: truth[0], 2: truth[2]}


def test_a_request_that_just_fits_is_served(bench: Bench) -> None:
    engine = bench.engine("mha", max_tokens=12)
    assert len(bench.tokens(engine, [Request(0, PROMPTS[1], 5)])[0]) == 5


def test_reset_forgets_everything(bench: Bench, truth: list[list[int]]) -> None:
    engine = bench.engine(f"mha+{CLASSIC}", slots=2)
    for i, prompt in enumerate(PROMPTS):
        engine.submit(Request(i, prompt, 12 - i))
    engine.submit(Request(9, (), 1))
    for _ in range(3):
        engine.step()
    engine.submit(Request(10, (), 1))
    engine.reset()
    assert not engine.has_work
    assert engine.step() == []
    assert engine.memory().state_bytes == 0
    # The same ids again, in other slots: nothing held back, nothing cached, all as on day one.
    again = [Request(2 - i, prompt, 12) for i, prompt in reversed(list(enumerate(PROMPTS)))]
    assert bench.tokens(engine, again) == {2 - i: truth[i] for i in range(3)}


def test_an_id_may_come_again(bench: Bench, truth: list[list[int]]) -> None:
    engine = bench.engine("mha")
    for prompt, expected in zip(PROMPTS, truth, strict=True):
        assert bench.tokens(engine, [Request(5, prompt, 12)]) == {5: expected}


def test_a_step_may_emit_nothing(bench: Bench) -> None:
    """Blocks of four filled one place at a time: three silent steps before each emission."""
    engine = bench.engine({"decoding": {"toy_blocks": {"per_step": 1}}})
    steps = bench.run(engine, [Request(0, PROMPTS[0][:4], 8)])
    assert [len(step) for step in steps] == [0, 0, 0, 1, 0, 0, 0, 1]
    assert [len(e.token_ids) for step in steps for e in step] == [4, 4]


class Log:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Tensor]] = {}
        self.places: dict[int, int] = {}

    def __call__(self, request: int, place: int, logits: Tensor) -> None:
        rows = self.rows.setdefault(request, [])
        first = self.places.setdefault(request, place)
        assert place == first + len(rows)
        rows += logits.clone().unbind(0)


@pytest.mark.parametrize("decoder", ["autoregressive", "toy_chain", "toy_tree"])
@pytest.mark.parametrize(
    "schedule", ["static(pad_finished=true)", "toy_pieces(piece=2,preempt_every=3)"]
)
def test_the_observer_sees_what_decided_the_emitted_tokens(
    bench: Bench, truth: list[list[int]], decoder: str, schedule: str
) -> None:
    """Rows of rejected proposals, of unfinished prompts and of padding are not shown."""
    decoding: Any = {decoder: {} if decoder == "autoregressive" else {"script": truth}}
    engine = bench.engine({"decoding": decoding, "scheduling": schedule})
    engine.observer = log = Log()
    requests = [Request(i, p, 12 - 2 * i) for i, p in enumerate(PROMPTS)]
    tokens = bench.tokens(engine, requests)
    for i, prompt in enumerate(PROMPTS):
        assert log.places[i] == len(prompt)
        seen = torch.stack(log.rows[i])
        exact = bench.logits("mha", [*prompt, *tokens[i][:-1]])[len(prompt) - 1 :]
        assert seen.shape == exact.shape
        assert (seen - exact).abs().max() < 1e-5 * exact.abs().max()


def test_the_observer_is_not_told_about_blocks(bench: Bench) -> None:
    engine = bench.engine("mha+toy_blocks")
    engine.observer = log = Log()
    bench.run(engine, [Request(0, PROMPTS[0], 8)])
    assert log.rows == {}


@pytest.mark.parametrize(("stack", "kv_heads"), [("mha", 4), ("gqa", 1), ("gqa(kv_heads=2)", 2)])
@pytest.mark.parametrize("schedule", ["static", CLASSIC])
def test_state_bytes_are_the_formula(
    bench: Bench, stack: str, kv_heads: int, schedule: str
) -> None:
    """B (P + N - 1) L K H 2 numbers: the last token is never held; gqa divides them by N / K."""
    B, P, N = 3, 9, 6
    engine = bench.engine(f"{stack}+{schedule}")
    assert engine.memory().state_bytes == 0
    engine.observer = Log()
    bench.run(engine, [Request(i, (i + 1,) * P, N) for i in range(B)])
    shape = bench.source.shape
    numbers = B * (P + N - 1) * shape.layers * kv_heads * shape.head_dim * 2
    memory = engine.memory()
    assert memory.state_bytes == numbers * 4
    assert memory.reserved_bytes >= memory.state_bytes


def test_state_is_looked_at_only_while_watched(bench: Bench) -> None:
    """Counting entries at each finish was part of the timed step, and only caches paid for it."""
    engine = bench.engine("mha")
    bench.run(engine, [Request(0, PROMPTS[0], 4)])
    assert engine.memory().state_bytes == 0


def test_recompute_holds_no_state(bench: Bench) -> None:
    engine = bench.engine("mha+recompute")
    bench.run(engine, [Request(0, PROMPTS[0], 4)])
    assert engine.memory().state_bytes == engine.memory().reserved_bytes == 0


def test_recurrent_state_does_not_grow(bench: Bench) -> None:
    held = []
    for new in (2, 20):
        engine = bench.engine("toy_average")
        engine.observer = Log()
        bench.run(engine, [Request(0, PROMPTS[0], new)])
        held.append(engine.memory().state_bytes)
    shape = bench.source.shape
    assert held == [shape.layers * shape.heads * shape.head_dim * 4] * 2


@pytest.mark.parametrize("tied", [False, True])
def test_weights_bytes_count_every_number_once(bench: Bench, tied: bool) -> None:
    source = replace(bench.source, shape=replace(bench.source.shape, tied=tied))
    engine = bench.engine("mha", source=source)
    loaded = bench.weights(bench.plan("mha", source=source), source)
    assert engine.memory().weights_bytes == sum(t.numel() * 4 for t in loaded.values())


def test_finished_rows_leave_the_batch_by_default(bench: Bench) -> None:
    assert _batch_sizes(bench, "static") == [3, 3, 2, 2, 1]


def test_pad_finished_computes_them_to_the_end(bench: Bench) -> None:
    assert _batch_sizes(bench, "static(pad_finished=true)") == [3, 3, 3, 3, 3]


def test_a_padded_row_stops_where_it_is_full(bench: Bench, truth: list[list[int]]) -> None:
    """A row at its longest length once ran past the rope table under recompute."""
    for cache in ("contiguous", "recompute"):
        engine = bench.engine(f"mha+{cache}+static(pad_finished=true)", max_tokens=13)
        requests = [Request(0, PROMPTS[1], 2), Request(1, PROMPTS[2], 12)]
        assert bench.tokens(engine, requests) == {0: truth[1][:2], 1: truth[2]}


def _batch_sizes(bench: Bench, schedule: str) -> list[int]:
    """Sequences in each forward of three requests with 2, 4 and 5 new tokens."""
    engine = bench.engine(f"mha+{schedule}")
    sizes = []
    forward = engine.runner.forward

    def counted(items: Any, causal_block: int = 1) -> Any:
        sizes.append(len(items))
        return forward(items, causal_block)

    engine.runner.forward = counted  # type: ignore[method-assign]
    bench.run(engine, [Request(i, PROMPTS[i], n) for i, n in enumerate((2, 4, 5))])
    return sizes


@pytest.mark.parametrize("pad", ["false", "true"])
def test_emit_at_end_holds_every_answer_back(
    bench: Bench, truth: list[list[int]], pad: str
) -> None:
    """One emission a request, with all its tokens, when the longest of its batch is done."""
    engine = bench.engine(f"mha+static(pad_finished={pad},emit_at_end=true)", slots=2)
    news = (2, 4, 5)
    steps = bench.run(engine, [Request(i, PROMPTS[i], n) for i, n in enumerate(news)])
    whole = [
        Emission(i, tuple(truth[i][:n]), finished=True, reason="length") for i, n in enumerate(news)
    ]
    silent: list[list[Emission]] = [[]]
    assert steps == silent * 3 + [whole[:2]] + silent * 4 + [whole[2:]]


def test_nobody_joins_a_static_batch(bench: Bench) -> None:
    engine = bench.engine("mha+static", slots=2)
    steps = bench.run(engine, [Request(i, PROMPTS[0], 3 + i) for i in range(3)])
    who = [sorted(e.request_id for e in step) for step in steps]
    assert who == [[0, 1]] * 3 + [[1]] + [[2]] * 5


def test_a_late_submission_waits_for_the_next_batch(bench: Bench, truth: list[list[int]]) -> None:
    engine = bench.engine("mha", slots=2)
    engine.submit(Request(0, PROMPTS[0], 3))
    first = engine.step()
    engine.submit(Request(1, PROMPTS[1], 2))
    rest = bench.run(engine, [])
    assert [e.request_id for step in [first, *rest] for e in step] == [0, 0, 0, 1, 1]
    assert [t for step in rest for e in step if e.request_id == 1 for t in e.token_ids] == (
        truth[1][:2]
    )


def test_sampled_and_greedy_requests_share_a_batch(bench: Bench, truth: list[list[int]]) -> None:
    engine = bench.engine("mha")
    hot = Sampling(temperature=5.0, seed=1)
    tokens = bench.tokens(
        engine, [Request(0, PROMPTS[0], 12), Request(1, PROMPTS[0], 12, sampling=hot)]
    )
    assert tokens[0] == truth[0]
    assert tokens[1] != truth[0]


def test_more_places_than_the_model_has_are_refused_at_planning(bench: Bench) -> None:
    with pytest.raises(UnfitError, match="256"):
        bench.plan("mha", max_tokens=257)
