"""Prompts: exact length, inside the vocabulary, and never the same one twice."""

from __future__ import annotations

import itertools
import random

import pytest

from harness.errors import UsageError
from harness.measure.prompts import PromptMaker, Prompts, Share, text_tokens

TEXT = random.Random(1).choices(range(50), k=600)


def batches(
    text: list[int] | None, length: int, share: Share, sizes: list[int], vocab: int = 50
) -> list[Prompts]:
    maker = PromptMaker(vocab, length, share, text)
    return [maker.batch(size) for size in sizes]


@pytest.mark.parametrize("text", [None, TEXT], ids=["random", "text"])
@pytest.mark.parametrize("length", [4, 33])
def test_every_sequence_of_every_repetition_of_every_round_differs(
    text: list[int] | None, length: int
) -> None:
    """vllm#54227, #10753: identical prompts make a warm prefix look like speed."""
    everything = [
        prompt
        for round_ in range(3)
        for batch in batches(text, length, Share("5", round_, 3), [8] * 10)
        for prompt in batch
    ]
    assert len(set(everything)) == 240
    assert {len(prompt) for prompt in everything} == {length}
    assert all(0 <= token < 50 for prompt in everything for token in prompt)


@pytest.mark.parametrize("text", [None, TEXT], ids=["random", "text"])
def test_a_seed_names_the_prompts(text: list[int] | None) -> None:
    def once(seed: int) -> list[Prompts]:
        return batches(text, 16, Share(str(seed), 1, 3), [4, 4])

    assert once(7) == once(7)
    assert once(7) != once(8)


def test_text_prompts_are_windows_of_it() -> None:
    [batch] = batches(TEXT, 20, Share("0", 0, 3), [5])
    windows = {tuple(TEXT[i : i + 20]) for i in range(len(TEXT))}
    assert set(batch) <= windows


def test_a_window_that_repeats_in_the_text_is_used_once() -> None:
    """A sentence over and over has as many different windows as the sentence is long."""
    makers = [
        PromptMaker(50, 10, Share("0", round_, 2), list(range(7)) * 20) for round_ in range(2)
    ]
    assert sum(maker.left for maker in makers) == 7


@pytest.mark.parametrize("length", [1, 2])
def test_short_prompts_run_out_instead_of_repeating(length: int) -> None:
    """A vocabulary of 3 has 3 prompts of one token and 9 of two."""
    total = 3**length
    makers = [PromptMaker(3, length, Share("0", round_, 1), None) for round_ in range(1)]
    found = list(itertools.chain.from_iterable(makers[0].batch(1) for _ in range(total)))
    assert len(set(found)) == total
    with pytest.raises(UsageError, match="run out: 0 unused"):
        makers[0].batch(1)


def test_a_tokenizer_of_another_model_is_refused() -> None:
    with pytest.raises(UsageError, match="outside the model's vocabulary"):
        PromptMaker(40, 8, Share("0", 0, 1), TEXT)


def test_a_text_that_is_too_short_gives_way_to_random_ids() -> None:
    assert PromptMaker(50, 700, Share("0", 0, 1), TEXT).kind == "random ids"
    assert PromptMaker(50, 500, Share("0", 0, 1), TEXT).kind == "held-out text"


def test_the_text_grows_with_what_a_case_can_use() -> None:
    assert text_tokens(1024, 1, 3) == 16384
    assert text_tokens(1024, 256, 3) > 48 * 1024


@pytest.mark.parametrize("text", [None, TEXT], ids=["random", "text"])
def test_processes_that_warmed_up_for_longer_are_timed_on_the_same_prompts(
    text: list[int] | None,
) -> None:
    short, long = (PromptMaker(50, 16, Share("point", 1, 3), text) for _ in range(2))
    short.batch(4)
    for _ in range(5):
        long.batch(4)
    for maker in (short, long):
        maker.skip_to(28)
    assert short.batch(4) == long.batch(4)


def test_prompts_that_are_scarce_are_not_skipped() -> None:
    maker = PromptMaker(3, 2, Share("point", 0, 1), None)
    maker.skip_to(5)
    assert maker.left == 9
