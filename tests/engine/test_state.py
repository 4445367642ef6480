"""State that leaves one engine and enters another, and state that two sequences begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.engine.build import make_runner
from harness.engine.request import Request
from harness.engine.runner import Runner
from harness.model.batch import Item

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

STACKS = ["mha", "gqa", "mha+recompute", "toy_average", "toy_average(hybrid=true)"]
TOKENS = [7, 11, 2, 40, 5, 33, 18, 9, 9, 50]


def _runner(bench: Bench, stack: str, slots: int = 3) -> Runner:
    plan = bench.plan(stack, slots)
    return make_runner(plan, bench.weights(plan))


@torch.inference_mode()
def _logits(runner: Runner, seq: int, tokens: list[int]) -> torch.Tensor:
    """Logits [V] after these tokens, of which the store may hold a beginning."""
    fed = tokens[runner.store.length(seq) :]
    assert runner.store.reserve(seq, len(fed))
    hidden, _ = runner.forward([Item(seq, fed)])
    runner.store.settle(seq)
    logits: torch.Tensor = runner.model.head(hidden[-1:])[0]
    return logits


def _assert_right(bench: Bench, stack: str, tokens: list[int], logits: torch.Tensor) -> None:
    exact = bench.logits(stack, tokens)[-1]
    assert (logits - exact).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("stack", STACKS)
def test_exported_state_goes_on_in_another_engine(bench: Bench, stack: str) -> None:
    """What disaggregated prefill does."""
    first, second = _runner(bench, stack), _runner(bench, stack)
    _logits(first, 1, TOKENS[:6])
    # Somebody else is there already, so the state lands in another place.
    _logits(second, 8, TOKENS[3:5])
    blob = first.store.export(1)
    first.store.free(1)
    assert second.store.import_(4, blob)
    assert second.store.length(4) == (0 if "recompute" in stack else 6)
    _assert_right(bench, stack, TOKENS, _logits(second, 4, TOKENS))


@pytest.mark.parametrize("stack", STACKS)
def test_forks_go_their_own_ways(bench: Bench, stack: str) -> None:
    runner = _runner(bench, stack)
    _logits(runner, 1, TOKENS[:6])
    assert runner.store.fork(1, 2)
    other = [*TOKENS[:6], 1, 2, 3]
    for upto in (7, 8, 9):
        _assert_right(bench, stack, TOKENS[:upto], _logits(runner, 1, TOKENS[:upto]))
        _assert_right(bench, stack, other[:upto], _logits(runner, 2, other[:upto]))
    runner.store.free(1)
    _assert_right(bench, stack, [*other, 4], _logits(runner, 2, [*other, 4]))


@pytest.mark.parametrize("stack", ["mha", "toy_average(hybrid=true)"])
@pytest.mark.parametrize("how", ["fork", "import"])
def test_without_room_nothing_is_left_behind(bench: Bench, stack: str, how: str) -> None:
    runner = _runner(bench, stack, slots=1)
    _logits(runner, 1, TOKENS[:6])
    held = runner.store.held_bytes()
    taken: Any = runner.store.export(1) if how == "import" else None
    if taken is None:
        assert not runner.store.fork(1, 2)
    else:
        assert not runner.store.import_(2, taken)
    assert runner.store.length(2) == 0
    assert runner.store.held_bytes() == held
    for part in (runner.store.tokens, runner.store.recurrent):
        assert part is None or part.length(2) == 0


def test_a_rewind_to_a_place_without_a_saved_state_comes_back_shorter(bench: Bench) -> None:
    """The engine then feeds the difference again."""
    runner = _runner(bench, "toy_average(hybrid=true)")
    _logits(runner, 1, TOKENS[:4])
    _logits(runner, 1, TOKENS[:9])
    assert runner.store.rewind(1, 7) == 0
    assert runner.store.length(1) == 0
    _assert_right(bench, "toy_average(hybrid=true)", TOKENS, _logits(runner, 1, TOKENS))


def test_tentative_rows_can_be_taken_back_one_by_one(bench: Bench) -> None:
    """Several forwards before anything is settled, as a draft model has them."""
    stack = "toy_average(hybrid=true)"
    runner = _runner(bench, stack)
    _logits(runner, 1, TOKENS[:5])
    for token in (1, 2, 3):
        assert runner.store.reserve(1, 1)
        runner.forward([Item(1, [token], certain=0)])
    for length in (7, 6, 5):
        assert runner.store.rewind(1, length) == length
    _assert_right(bench, stack, TOKENS, _logits(runner, 1, TOKENS))


@pytest.mark.parametrize("architecture", ["mha", "toy_average", "toy_average(hybrid=true)"])
def test_accepted_tokens_are_not_fed_again(bench: Bench, architecture: str) -> None:
    """The state after each tentative row is kept, so a rewind loses nothing that was accepted."""
    prompt = tuple(TOKENS)
    script = bench.truth(architecture, [prompt], [12])
    stack = {"architecture": architecture, "decoding": {"toy_chain": {"script": script}}}
    engine = bench.engine(stack)
    certain: list[int | None] = []
    forward = engine.runner.forward

    def noted(items: list[Item], causal_block: int = 1) -> Any:
        certain.extend(item.certain for item in items)
        return forward(items, causal_block)

    engine.runner.forward = noted  # type: ignore[method-assign]
    assert bench.tokens(engine, [Request(0, prompt, 12)]) == {0: script[0]}
    assert certain[0] == len(prompt)
    # The last step has no room for a proposal, and then all rows are certain.
    assert {1} <= set(certain[1:]) <= {1, None}
    assert engine.decoder.rejected > 0  # type: ignore[attr-defined]
