"""Noise that depends on nothing but its key, and draws that follow the distribution.

The chi-squared tests have a false-alarm rate of one in a million each, and fixed seeds: they pass
or fail the same way every time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
import torch

from harness.engine.request import Request, Sampling
from harness.engine.sampling import Purpose, draw, probabilities, sample, uniform

if TYPE_CHECKING:
    from tests.engine.conftest import Bench

# Standard normal quantile of 1 - 1e-6.
_Z = 4.753


def _bound(df: int) -> float:
    """Chi-squared quantile of 1 - 1e-6 (Wilson and Hilferty 1931)."""
    return df * (1 - 2 / (9 * df) + _Z * math.sqrt(2 / (9 * df))) ** 3


def _assert_even(values: Iterable[int], cells: int) -> None:
    """Values in 0 .. cells - 1 fill all cells alike."""
    counts = torch.bincount(torch.tensor(list(values)), minlength=cells).double()
    mean = counts.mean()
    chi2 = ((counts - mean) ** 2 / mean).sum().item()
    assert chi2 < _bound(cells - 1)


def _assert_unrelated(pairs: Iterable[tuple[float, float]]) -> None:
    """Pairs of numbers in [0, 1) fill a grid of 12 by 12 alike."""
    _assert_even((int(a * 12) * 12 + int(b * 12) for a, b in pairs), 144)


def test_numbers_are_pinned() -> None:
    """Another formula would change every sampled result without a change of its case's hash."""
    assert [uniform(0, 0), uniform(7, 123), uniform(7, 123, Purpose.ACCEPT)] == [
        0.13870941014555427,
        0.025392639652398796,
        0.5719079502758082,
    ]


def test_a_number_depends_on_its_key_alone() -> None:
    keys = list(itertools.product((0, 1, -1, 2**63, 2**64 - 2), range(20), Purpose))
    forward = [uniform(*key) for key in keys]
    assert forward == [uniform(*key) for key in reversed(keys)][::-1]
    assert len(set(forward)) == len(keys)
    assert all(0 <= number < 1 for number in forward)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_numbers_are_even(seed: int) -> None:
    _assert_even((int(uniform(seed, place) * 100) for place in range(10_000)), 100)


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(Purpose, 2)))
def test_purposes_are_unrelated(first: Purpose, second: Purpose) -> None:
    """One number used both for drafting and for accepting would skew speculative sampling."""
    _assert_unrelated((uniform(3, p, first), uniform(3, p, second)) for p in range(6_000))


def test_neighbouring_keys_are_unrelated() -> None:
    places = range(6_000)
    _assert_unrelated((uniform(3, p), uniform(3, p + 1)) for p in places)
    _assert_unrelated((uniform(3, p), uniform(4, p)) for p in places)
    _assert_unrelated((uniform(3, p + 1), uniform(4, p)) for p in places)
    _assert_unrelated((uniform(s, 5), uniform(s + 1, 5)) for s in places)


def test_draws_follow_the_distribution() -> None:
    chances = torch.tensor([0.02, 0.0, 0.4, 0.13, 0.25, 0.2, 0.0], dtype=torch.float64)
    n = 20_000
    tokens = draw(chances.expand(n, -1), [uniform(1, place) for place in range(n)])
    counts = torch.bincount(torch.tensor(tokens), minlength=7).double()
    possible = chances > 0
    assert counts[~possible].sum() == 0
    wanted = n * chances[possible]
    chi2 = ((counts[possible] - wanted) ** 2 / wanted).sum().item()
    assert chi2 < _bound(4)


@pytest.mark.parametrize("number", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_interval_draw_possible_tokens(number: float) -> None:
    """Tokens without mass stand at both ends, and sums are rounded."""
    generator = torch.Generator().manual_seed(0)
    chances = torch.rand(200, 50, generator=generator, dtype=torch.float64)
    chances[:, :3] = chances[:, -3:] = 0.0
    chances /= chances.sum(-1, keepdim=True)
    tokens = draw(chances, [number] * 200)
    assert set(tokens) == ({3} if number == 0 else {46})


LOGITS = torch.tensor([[2.0, 1.0, 2.0, 0.0, -1.0, 1.0]])


def _chances(sampling: Sampling, logits: torch.Tensor = LOGITS) -> torch.Tensor:
    return probabilities(logits, [sampling])[0]


def test_temperature_divides_logits() -> None:
    expected = (LOGITS.double() / 0.7).softmax(-1)[0]
    assert torch.allclose(_chances(Sampling(temperature=0.7)), expected, rtol=1e-12)


def test_no_temperature_is_greedy() -> None:
    assert _chances(Sampling()).tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-300, 5e-324])
def test_a_vanishing_temperature_is_greedy_up_to_ties(temperature: float) -> None:
    """The smallest ones once overflowed to NaN."""
    assert _chances(Sampling(temperature=temperature)).tolist() == [0.5, 0, 0.5, 0, 0, 0]
    logits = torch.tensor([[-50.0, 3.0, 2.5, 700.0]])
    assert _chances(Sampling(temperature=temperature), logits).tolist() == [0, 0, 0, 1]


def test_a_large_temperature_is_even() -> None:
    assert torch.allclose(
        _chances(Sampling(temperature=1e9)), torch.full((6,), 1 / 6, dtype=torch.float64)
    )


@pytest.mark.parametrize(
    ("top_k", "kept"),
    [(1, {0}), (2, {0, 2}), (3, {0, 1, 2}), (4, {0, 1, 2, 5}), (6, set(range(6)))],
)
def test_top_k_keeps_so_many_and_the_first_of_equals(top_k: int, kept: set[int]) -> None:
    chances = _chances(Sampling(temperature=1.0, top_k=top_k))
    assert set(chances.nonzero()[:, 0].tolist()) == kept
    assert chances.sum().item() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("top_k", [1000, 10**23], ids=str)
def test_top_k_beyond_the_vocabulary_keeps_all(top_k: int) -> None:
    """`harness generate --top-k` with more digits than a tensor holds ended in a traceback."""
    wide = _chances(Sampling(temperature=1.0, top_k=top_k))
    assert torch.equal(wide, _chances(Sampling(temperature=1.0)))


@pytest.mark.parametrize(
    ("top_p", "kept"),
    # Sorted mass: 0.5, 0.25, 0.125, 0.125.
    [(0.0, 1), (0.3, 1), (0.49, 1), (0.51, 2), (0.74, 2), (0.76, 3), (0.9, 4), (1.0, 4)],
)
def test_top_p_keeps_the_smallest_set_with_that_mass(top_p: float, kept: int) -> None:
    logits = torch.tensor([[0.25, 0.125, 0.5, 0.125]]).log()
    chances = _chances(Sampling(temperature=1.0, top_p=top_p), logits)
    assert torch.count_nonzero(chances) == kept
    assert chances.argmax() == 2


def test_top_p_counts_the_mass_that_top_k_left() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    # Of 0.4 and 0.3 the first has 57 %: enough for 0.5 here, not without top_k.
    both = _chances(Sampling(temperature=1.0, top_k=2, top_p=0.5), logits)
    alone = _chances(Sampling(temperature=1.0, top_p=0.5), logits)
    assert torch.count_nonzero(both) == 1
    assert torch.count_nonzero(alone) == 2


def test_rows_keep_their_own_settings() -> None:
    """A row once lost the end of its tail when its neighbour had a top_p."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(5, 400, generator=generator) * 12
    # A tail so light that a sum over the first token is already 1.
    logits[1] = -30.0
    logits[1, 7] = 0.0
    settings = [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=1.5, top_k=7),
        Sampling(temperature=1.0, top_p=0.8),
        Sampling(temperature=0.3, top_k=3, top_p=0.9),
    ]
    together = probabilities(logits, settings)
    for row, setting in enumerate(settings):
        assert torch.equal(together[row], _chances(setting, logits[row : row + 1]))


def test_sample_takes_the_number_of_its_place() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(3, 40, generator=generator)
    settings = [Sampling(temperature=1.0, seed=s) for s in (4, 5, 6)]
    tokens = sample(logits, settings, [10, 20, 30], Purpose.DRAFT)
    for row, (setting, place) in enumerate(zip(settings, (10, 20, 30), strict=True)):
        number = uniform(setting.seed, place, Purpose.DRAFT)
        assert tokens[row] == draw(probabilities(logits[row : row + 1], [setting]), [number])[0]


def test_sample_mixes_greedy_and_sampled_rows() -> None:
    logits = torch.tensor([[0.0, 5.0, 1.0], [0.0, 0.0, 0.0], [9.0, 1.0, 1.0]])
    settings = [Sampling(), Sampling(temperature=1.0, seed=8), Sampling()]
    tokens = sample(logits, settings, [3, 3, 3])
    assert [tokens[0], tokens[2]] == [1, 0]
    assert tokens[1] == int(uniform(8, 3) * 3)


PROMPT = (7, 11, 2, 40, 5)
SAMPLED = Sampling(temperature=1.1, top_k=30, top_p=0.95, seed=21)
ALONE = "mha"
ELSEWHERE = {
    "neighbours": ("mha", 4),
    "one slot": ("mha", 1),
    "recompute": ("mha+recompute", 4),
    "padded": ("mha+static(pad_finished=true)", 4),
    "pieces": ("mha+toy_pieces(piece=2)", 4),
    "preempted": ("mha+toy_pieces(piece=3,preempt_every=3)", 3),
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_requests_tokens_are_its_own(bench: Bench, place: str) -> None:
    wanted = bench.tokens(bench.engine(ALONE), [Request(0, PROMPT, 14, SAMPLED)])[0]
    stack, slots = ELSEWHERE[place]
    others = [
        Request(1, (1, 2, 3, 4, 5, 6, 7, 8), 6, Sampling(temperature=0.9, seed=21)),
        Request(2, (50,), 20),
        Request(3, PROMPT, 14, Sampling(temperature=1.1, top_k=30, top_p=0.95, seed=22)),
    ]
    tokens = bench.tokens(bench.engine(stack, slots), [*others, Request(9, PROMPT, 14, SAMPLED)])
    assert tokens[9] == wanted
    assert tokens[3] != wanted
    assert len(set(wanted)) > 5
