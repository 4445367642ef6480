"""Regret: a tie is no fault, a worse token is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.gates.regret import agreement, check_regret, regrets


@pytest.fixture(scope="module")
def exact() -> Tensor:
    return torch.randn(20, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3


def passed(exact: Tensor, emitted: list[int], noise: float = 1e-5) -> list[bool]:
    trusted = exact + noise * torch.sin(torch.arange(exact.numel()).view_as(exact))
    return [gate.passed for gate in check_regret(exact, trusted, emitted, torch.float32)]


def test_the_best_tokens_have_no_regret(exact: Tensor) -> None:
    best = exact.argmax(-1).tolist()
    assert regrets(exact, best).max() == 0
    assert agreement(exact, best) == 1
    assert passed(exact, best) == [True, True]


def test_the_second_best_token_is_a_fault(exact: Tensor) -> None:
    """One wrong token in twenty is enough."""
    tokens = exact.argmax(-1).tolist()
    tokens[7] = int(exact[7].topk(2).indices[1])
    assert passed(exact, tokens) == [False, True]
    assert agreement(exact, tokens) == 0.95


def test_a_tie_may_go_either_way(exact: Tensor) -> None:
    """Closer than twice what two trusted paths differ by: equality would be luck."""
    tied = exact.clone()
    tokens = tied.argmax(-1).tolist()
    tied[3, (tokens[3] + 1) % 64] = tied[3, tokens[3]] - 5e-6
    tokens[3] = (tokens[3] + 1) % 64
    assert passed(tied, tokens) == [True, True]
    assert passed(tied, tokens, noise=1e-8)[0] is False


@pytest.mark.parametrize("token", [-1, 64, 2**63 - 1])
def test_a_token_outside_the_vocabulary_fails(exact: Tensor, token: int) -> None:
    tokens = exact.argmax(-1).tolist()
    tokens[0] = token
    assert passed(exact, tokens) == [False, False]


def test_missing_tokens_fail(exact: Tensor) -> None:
    assert passed(exact, exact.argmax(-1).tolist()[:-1]) == [False, False]
    assert passed(exact[:0], []) == [False, False]


def test_a_reference_that_is_not_finite_fails(exact: Tensor) -> None:
    broken = exact.clone()
    broken[0, 0] = torch.nan
    found = check_regret(broken, exact, exact.argmax(-1).tolist(), torch.float32)
    assert not any(gate.passed for gate in found)


def test_flat_logits_tell_no_token_from_another() -> None:
    """Every token would pass, so the gate says that it has no teeth."""
    flat = torch.ones(4, 16, dtype=torch.float64)
    assert passed(flat, [0, 1, 2, 3], noise=0.0) == [True, False]
