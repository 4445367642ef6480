"""What is asked: text that no model was trained on, the same each time, with the answers known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UnfitError
from harness.model import source, tokenizer
from harness.model.source import ModelSource
from harness.quality import questions
from harness.zoo import corpus


@pytest.fixture(scope="module")
def small() -> ModelSource:
    return source.find("zoo/small-gqa", ())


def test_passages_are_held_out_text_from_every_novel(small: ModelSource) -> None:
    found = questions.passages(small, 12, 50)
    assert len(found.windows) == len(set(found.windows)) == 12
    assert {len(window) for window in found.windows} == {50}
    assert small.tokenizer is not None
    decode = tokenizer.load(small.tokenizer, 1024).decode
    held_out = [novel.held_out for novel in corpus.read()]
    trained = "".join(novel.train for novel in corpus.read())
    homes = set()
    for window in found.windows:
        text = decode(list(window))
        assert text not in trained
        homes |= {i for i, novel in enumerate(held_out) if text in novel}
    assert homes == set(range(len(held_out)))
    assert found == questions.passages(small, 12, 50)


def test_bytes_of_entries_add_up_to_the_texts(small: ModelSource) -> None:
    found = questions.passages(small, 3, 40)
    assert small.tokenizer is not None
    decode = tokenizer.load(small.tokenizer, 1024).decode
    for window in found.windows:
        text_bytes = len(decode(list(window)).encode())
        assert sum(found.entry_bytes[token] for token in window) == text_bytes
    # <s> and </s> are no text.
    assert found.entry_bytes[:2] == (0, 0)


def test_more_text_than_there_is_is_refused(small: ModelSource) -> None:
    with pytest.raises(
        UnfitError, match=r"has \d+ windows of 2000 tokens .* windows is 500; fewer"
    ):
        questions.passages(small, 500, 2000)


def test_copies_hold_a_passage_twice_and_leave_its_first_token_out() -> None:
    (asked,) = questions.copies([tuple(range(10))], 1)
    assert asked.text.tokens == (0, 1, 2, 3, 4, 0, 1, 2, 3, 4)
    assert asked.places == (6, 7, 8, 9)


def test_clozes_have_their_own_end_first_and_others_of_the_same_length() -> None:
    windows = [tuple(range(10 * i, 10 * i + 8)) for i in range(6)]
    found = questions.clozes(windows, 5, seed=0)
    assert found == questions.clozes(windows, 5, seed=0)
    assert found != questions.clozes(windows, 5, seed=1)
    for window, cloze in zip(windows, found, strict=True):
        assert cloze.texts[0].tokens == window
        assert len({text.tokens[5:] for text in cloze.texts}) == questions.CHOICES
        assert all(text.tokens[:5] == window[:5] and text.fed == 5 for text in cloze.texts)
        assert all(len(text.tokens) == 8 for text in cloze.texts)


def test_needles_lie_where_they_are_said_to() -> None:
    found = source.find("zoo/needle64", ())
    task = questions.task_of(found)
    by_distance = questions.needles(task, found, 5, seed=2)
    assert list(by_distance) == [16, 64]
    for distance, asked in by_distance.items():
        for each in asked:
            tokens = each.text.tokens
            assert len(each.places) == 8
            # The place before an answer asks for it; so many tokens before that lies the needle.
            assert all(tokens[at - 1 - distance] == tokens[at] for at in each.places)
            assert each.places[-1] == len(tokens) - 1


def test_recalled_values_stood_behind_their_keys() -> None:
    from harness.zoo.tasks import Recall

    task = Recall(pairs=4, keys=8, values=8)
    for each in questions.recalls(task, source.find("tiny", ()), 5, seed=1):
        tokens = each.text.tokens
        told = {tokens[i]: tokens[i + 1] for i in range(1, 9, 2)}
        assert len(each.places) == 4
        assert all(told[tokens[at - 1]] == tokens[at] for at in each.places)


@pytest.mark.parametrize(
    ("model", "ask", "sentence"),
    [
        ("tiny", "passages", "'tiny' has no tokenizer, so it has no text to be judged on"),
        ("zoo/needle64", "passages", "has no tokenizer"),
        ("zoo/small-gqa", "recalls", "was trained on no recall or needle task"),
        ("zoo/needle64", "recalls", "was trained to find needles; task: needle"),
    ],
)
def test_a_model_that_a_task_cannot_be_put_to_is_one_sentence(
    model: str, ask: str, sentence: str
) -> None:
    found = source.find(model, ())
    asks: dict[str, Callable[[], object]] = {
        "passages": lambda: questions.passages(found, 4, 16),
        "recalls": lambda: questions.recalls(questions.task_of(found), found, 4, 0),
    }
    with pytest.raises(UnfitError, match=sentence):
        asks[ask]()


def test_a_tokenizer_whose_entries_are_no_bytes_is_refused(
    small: ModelSource, tmp_path: Path
) -> None:
    """Words as entries: their letters are not the text's bytes, blanks are missing."""
    from dataclasses import replace

    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = Tokenizer(WordLevel({"[UNK]": 0, "the": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    odd = replace(small, tokenizer=tmp_path / "tokenizer.json")
    with pytest.raises(UnfitError, match="are no bytes, so that its loss cannot be told in bits"):
        questions.passages(odd, 4, 16)
