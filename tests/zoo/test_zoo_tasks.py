"""The synthetic tasks: every question has one answer, it is where it is said to be, and it is the
same for the same seed."""

import numpy as np
import pytest
import torch

from harness.errors import UsageError
from harness.zoo import accuracy, material, network, rows, tasks, tokenizer
from harness.zoo.table import Architecture

RECALL = tasks.Recall(pairs=4, keys=8, values=16)
NEEDLE = tasks.Needle(slots=4, values=8, filler=10, near=4, far=40, asks=2)


def test_recall_asks_every_key_once_for_the_value_it_came_with() -> None:
    asked = RECALL.questions(50, 3)
    assert asked.tokens.shape == (50, RECALL.length) == (50, 17)
    assert asked.tokens.max() < RECALL.vocab
    for tokens, answers in zip(asked.tokens.tolist(), asked.answers.tolist(), strict=True):
        assert tokens[0] == tasks.START
        told = dict(zip(tokens[1:9:2], tokens[2:9:2], strict=True))
        assert len(told) == 4
        assert sorted(tokens[9::2]) == sorted(told)
        for place, key in list(enumerate(tokens))[9::2]:
            assert answers[place] == told[key] == tokens[place + 1]
        assert sum(answer != tasks.NO_ANSWER for answer in answers) == 4


@pytest.mark.parametrize("distance", [None, 4, 17, 40])
def test_needle_lies_where_it_is_said_to_and_nowhere_else(distance: int | None) -> None:
    asked = NEEDLE.questions(200, 3, distance=distance)
    assert asked.tokens.shape == (200, NEEDLE.length) == (200, 45)
    assert asked.tokens.max() < NEEDLE.vocab
    seen = set()
    for tokens, answers in zip(asked.tokens.tolist(), asked.answers.tolist(), strict=True):
        places = [place for place, answer in enumerate(answers) if answer != tasks.NO_ANSWER]
        assert places == [41, 43]
        for place in places:
            answer = answers[place]
            assert tokens[place + 1] == answer
            found = [p for p in range(place) if tokens[p] == answer]
            assert len(found) == 1, "the needle lies once before its question"
            slot = tokens[place] - 1
            first = 1 + NEEDLE.slots + slot * NEEDLE.values
            assert first <= answer < first + NEEDLE.values
            held = [t for t in tokens[:place] if first <= t < first + NEEDLE.values]
            assert held == [answer], "no other needle of the slot"
            seen.add(place - found[0])
    if distance is not None:
        assert seen == {distance}
    else:
        # Evenly in the logarithm: near ones are as common as far ones.
        assert min(seen) <= 5
        assert max(seen) >= 38


@pytest.mark.parametrize("task", [RECALL, NEEDLE])
def test_the_same_seed_asks_the_same_and_another_does_not(task: tasks.Task) -> None:
    first, again, other = (task.questions(8, *seed).tokens for seed in ((1, 0), (1, 0), (1, 1)))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_prompts_end_with_a_question() -> None:
    for prompt in tasks.recall_prompts(RECALL, 20, seed=0):
        told = dict(zip(prompt.tokens[1:9:2], prompt.tokens[2:9:2], strict=True))
        assert prompt.answer == told[prompt.tokens[-1]]
    for prompt in tasks.needle_prompts(NEEDLE, 20, seed=0, distance=30):
        assert prompt.tokens[-1 - 30] == prompt.answer
        assert prompt.tokens.count(prompt.answer) == 1


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="recall of 9 pairs needs as many keys, not 8"):
        tasks.Recall(pairs=9, keys=8, values=8)
    with pytest.raises(UsageError, match="distances of at least 4"):
        tasks.Needle(slots=4, values=8, filler=10, near=3, far=40, asks=2)
    with pytest.raises(UsageError, match="'target' has not learned recall"):
        accuracy.recall_accuracy("target", 8, 0)
    with pytest.raises(UsageError, match="'recall8-conv' has not learned to find needles"):
        accuracy.needle_accuracy("recall8-conv", 8, 0)
    with pytest.raises(UsageError, match="distance 300 is not within those learned, 16 to 256"):
        accuracy.needle_accuracy("needle256", 300, 0)
    with pytest.raises(UsageError, match="recall of 99 pairs"):
        accuracy.recall_accuracy("recall8-conv", 99, 0)


def test_an_untrained_network_only_guesses() -> None:
    net = network.build(rows.get("recall8-conv").architecture, seed=5)
    task = rows.get("recall8-conv").task
    assert isinstance(task, tasks.Recall)
    # Chance is 1 in 32 values, or in all 65 entries.
    assert accuracy.recall(net, task, pairs=8, seed=0, sequences=64) < 0.1


def test_only_answers_are_learned_and_no_training_step_asks_what_is_judged() -> None:
    entry = rows.get("recall8-conv")
    learned = material.of(entry, [], tokenizer.load())
    batch = learned.batch(0)
    assert (batch.targets >= 0).sum() == len(batch.targets) * 8
    judged = RECALL.questions(4, entry.budget.seed, material.JUDGEMENT).tokens
    trained = RECALL.questions(4, entry.budget.seed, material.TRAINING, 0).tokens
    assert not np.array_equal(judged, trained)


def test_short_convolution_is_causal_and_sees_four_tokens() -> None:
    architecture = Architecture(
        layers=1, heads=2, kv_heads=2, width=16, ff=0, head_dim=8, mixers=("conv-attention",)
    )
    mixer = network.ConvAttention(architecture)
    x = torch.randn(1, 12, 16, generator=torch.Generator().manual_seed(0))
    changed = x.clone()
    changed[0, 6] += 1
    cos, sin = network.rope_table(12, architecture)
    with torch.inference_mode():
        before, after = mixer(x, cos, sin)[0], mixer(changed, cos, sin)[0]
        moved = (mixer.conv(torch.nn.functional.pad(changed.mT, (3, 0))).mT)[0] - (
            mixer.conv(torch.nn.functional.pad(x.mT, (3, 0))).mT
        )[0]
    assert torch.equal(before[:6], after[:6])
    assert moved.abs().sum(1).gt(0).tolist() == [6 <= place < 10 for place in range(12)]
