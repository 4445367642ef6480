"""`harness generate`: text as it becomes certain, the same through different stacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner, Result

from harness.cli import generate
from harness.cli.generate import pieces
from harness.errors import HarnessError


class Bytes:
    """A tokenizer whose tokens are bytes of UTF-8."""

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


def test_text_comes_as_it_is_emitted() -> None:
    assert list(pieces(Bytes(), iter([(97, 98), (), (99,)]))) == ["ab", "", "c", ""]


def test_a_character_cut_between_tokens_waits_for_its_end() -> None:
    euro = "€".encode()
    emissions = [(byte,) for byte in b"1" + euro + b"2"]
    assert list(pieces(Bytes(), iter(emissions))) == ["1", "€", "2", ""]


def test_text_that_ends_within_a_character_is_told_at_the_end() -> None:
    assert "".join(pieces(Bytes(), iter([(0xE2,), (0x82,)]))) == "\N{REPLACEMENT CHARACTER}"


@pytest.fixture
def run() -> Callable[..., Result]:
    app = typer.Typer()
    app.callback()(lambda: None)
    generate.register(app)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["generate", *arguments])

    return invoke


PROMPT = "She was not at all"


def test_greedy_text_is_the_same_with_and_without_a_cache(run: Callable[..., Result]) -> None:
    texts = [run(stack, PROMPT, "--new-tokens", "12") for stack in ("gqa", "gqa+recompute")]
    assert [result.exit_code for result in texts] == [0, 0], texts
    assert texts[0].output == texts[1].output
    assert texts[0].output.startswith(PROMPT)
    assert len(texts[0].output.strip()) > len(PROMPT)


def test_sampled_text_follows_the_seed(run: Callable[..., Result]) -> None:
    options = ("--new-tokens", "12", "--temperature", "1.5", "--top-k", "50", "--top-p", "0.95")
    first, again, other = (
        run("gqa", PROMPT, *options, "--seed", seed).output for seed in ("1", "1", "2")
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gqa", ""], "the prompt is empty"),
        (["gqaa", "x"], "did you mean 'gqa'"),
        (["gqa", "x", "--model", "tiny"], "model 'tiny' has no tokenizer"),
        (["gqa", "x", "--new-tokens", "100000"], "so lower --new-tokens"),
        (["gqa", "x", "--model", "/nowhere"], "neither a known name nor a folder"),
    ],
)
def test_mistakes_are_one_sentence(
    run: Callable[..., Result], arguments: list[str], words: str
) -> None:
    error = run(*arguments).exception
    assert isinstance(error, HarnessError)
    assert error.exit_code == 2
    assert words in str(error)
    assert "\n" not in str(error)


def test_threads_have_a_bound(run: Callable[..., Result]) -> None:
    """A hundred thousand of them took every process that the machine could have."""
    result = run("gqa", PROMPT, "--threads", "100000")
    assert result.exit_code == 2
    assert "1024" in result.output
