"""Corpus and tokenizer: the cut, the hashes, the round trip, and what is refused."""

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.zoo import corpus, evaluate, stream, tokenizer


def test_parts_make_up_the_novel_and_the_held_out_part_is_its_last_twentieth() -> None:
    novels = corpus.read()
    assert [novel.name for novel in novels] == [
        "emma",
        "mansfieldpark",
        "northangerabbey",
        "persuasion",
        "prideprejudice",
        "sensesensibility",
    ]
    for novel in novels:
        text = (corpus.FOLDER / f"{novel.name}.txt").read_text(encoding="utf-8")
        assert novel.train + novel.held_out == text
        assert 0.05 <= len(novel.held_out) / len(text) < 0.055


def test_digest_changes_with_a_letter_and_with_the_cut() -> None:
    novel = corpus.Novel("a", "one\n\n", "two")
    same = corpus.Novel("a", "one\n\n", "two")
    assert corpus.digest([novel]) == corpus.digest([same])
    assert corpus.digest([novel]) != corpus.digest([corpus.Novel("a", "one\n\n", "twO")])
    assert corpus.digest([novel]) != corpus.digest([corpus.Novel("a", "one\n", "\ntwo")])


@pytest.mark.parametrize("text", ["", "no paragraph break", "word " * 100 + "\n\n", "a\n\n" * 0])
def test_corpus_without_held_out_part_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "short.txt").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="the corpus text 'short' has no held-out part"):
        corpus.read(tmp_path)


def test_held_out_part_shorter_than_a_window_is_refused() -> None:
    novel = corpus.cut("short", "A paragraph.\n\n" * 40)
    with pytest.raises(UsageError, match="no held-out part of at least 257 tokens"):
        stream.held_out_windows([novel], tokenizer.load(), 256)


def test_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no corpus in"):
        corpus.read(tmp_path)


def test_tokenizer_gives_every_byte_back() -> None:
    bpe = tokenizer.load()
    assert bpe.get_vocab_size() == tokenizer.ENTRIES
    assert bpe.token_to_id(tokenizer.BOS) == tokenizer.BOS_ID
    assert bpe.token_to_id(tokenizer.EOS) == tokenizer.EOS_ID
    for novel in corpus.read():
        assert bpe.decode(bpe.encode(novel.held_out).ids) == novel.held_out
    strange = "naïve 日本\t\x00 ~|{}\r\n"
    assert bpe.decode(bpe.encode(strange).ids) == strange


def test_tokenizer_is_the_one_its_training_gives() -> None:
    trained = tokenizer.train(corpus.read())
    assert trained.get_vocab() == tokenizer.load().get_vocab()


def test_tokenizer_too_large_for_the_vocabulary_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit a model with a vocabulary of 512"):
        tokenizer.load(entries=512)


def test_missing_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no tokenizer at"):
        tokenizer.load(tmp_path / "tokenizer.json")


def test_byte_lengths_count_the_text() -> None:
    bpe = tokenizer.load()
    text = corpus.read()[0].held_out[:5000] + "é日"
    lengths = stream.byte_lengths(bpe)
    assert sum(lengths[i] for i in bpe.encode(text).ids) == len(text.encode())


def test_held_out_windows_meet_in_one_token() -> None:
    bpe = tokenizer.load()
    novel = corpus.read()[0]
    windows, text_bytes = stream.held_out_windows([novel], bpe, 64)
    ids = bpe.encode(novel.held_out).ids
    assert windows[:, :-1].flatten().tolist() == ids[: windows[:, :-1].numel()]
    assert windows[0, -1] == windows[1, 0]
    assert text_bytes == len(bpe.decode(ids[1 : windows[:, :-1].numel() + 1]).encode())


def test_bits_per_byte_of_a_known_case() -> None:
    # ln 2 nats a token is one bit a token; two bytes a token make half a bit a byte.
    assert evaluate.bits_per_byte(0.6931471805599453, tokens=10, text_bytes=20) == 0.5


def test_a_broken_tokenizer_is_named(tmp_path: Path) -> None:
    """A run with such a model said "EOF while parsing an object", and not of which file."""
    path = tmp_path / "tokenizer.json"
    path.write_text("{")
    with pytest.raises(UsageError, match=r"cannot read the tokenizer '.*tokenizer\.json'"):
        tokenizer.load(path)
