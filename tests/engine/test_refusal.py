"""What an engine does not take on: one sentence each, and nobody else is disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness.engine.request import Emission, Request
from harness.errors import UsageError

if TYPE_CHECKING:
    from tests.engine.conftest import Bench


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (Request(0, (), 3), "request 0 has an empty prompt"),
        (Request(1, (2,), 0), "request 1 asks for 0 new tokens; it must ask for one at least"),
        (Request(2, (2,), 3, samples=0), "request 2 asks for 0 answers; it must ask for one at"),
        (Request(3, (1,) * 30, 3), "request 3 needs 33 tokens, and the engine was built for 32"),
        (Request(4, (1, 61, 2), 3), "request 4 has the token 61, outside the vocabulary of 61"),
        (Request(5, (1, -1, 2), 3), "request 5 has the token -1, outside the vocabulary of 61"),
    ],
)
@pytest.mark.parametrize("schedule", ["static", "continuous"])
def test_it_is_said_in_a_sentence(
    bench: Bench, request_: Request, sentence: str, schedule: str
) -> None:
    engine = bench.engine(f"mha+{schedule}")
    good = Request(9, (5, 6), 4)
    steps = bench.run(engine, [good, request_])
    refused = [e for step in steps for e in step if e.reason == "refused"]
    assert refused == [Emission(request_.id, (), finished=True, reason="refused")]
    assert refused[0].sentence is not None
    assert refused[0].sentence.startswith(sentence)
    answered = [token for step in steps for e in step if e.request_id == 9 for token in e.token_ids]
    assert [answered] == bench.truth("mha", [good.prompt], [4])


def test_an_id_that_lives_is_not_given_again(bench: Bench) -> None:
    """Emissions of the two could not be told apart, so this is the caller's error."""
    engine = bench.engine("mha+continuous")
    engine.submit(Request(3, (1, 2), 2, samples=2))
    for _ in range(2):
        with pytest.raises(UsageError, match="request 3 is being served already"):
            engine.submit(Request(3, (5,), 2))
        engine.step()
    engine.submit(Request(3, (5,), 1))
    engine.reset()
    engine.submit(Request(3, (5,), 1))
    with pytest.raises(UsageError, match="negative"):
        engine.submit(Request(-1, (5,), 1))


def test_a_decoder_of_blocks_gives_one_answer(bench: Bench) -> None:
    engine = bench.engine("mha+toy_blocks")
    engine.submit(Request(0, (1, 2), 8, samples=2))
    (refused,) = engine.step()
    assert refused.sentence == "request 0 asks for several answers, of a decoder of whole blocks"
