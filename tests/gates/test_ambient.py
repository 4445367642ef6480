"""Settings of PyTorch that nobody may change, each changed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from harness.gates.ambient import check_ambient, check_cpu_time, restored, state

CHANGES: dict[str, Callable[[], object]] = {
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "cuda.matmul.fp32_precision": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "cuda.matmul.allow_bf16_reduced_precision_reduction": lambda: setattr(
        torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", False
    ),
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    with restored(state()):
        yield


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_fails_and_is_named(name: str) -> None:
    before = state()
    assert check_ambient(before, state()).passed
    CHANGES[name]()
    found = check_ambient(before, state())
    assert not found.passed
    assert f"{name} was {before[name]}" in found.detail


@pytest.mark.parametrize("name", CHANGES)
def test_references_run_under_the_settings_of_before(name: str) -> None:
    """A candidate that loosened the arithmetic has not loosened its judge's."""
    before = state()
    CHANGES[name]()
    changed = state()
    with restored(before):
        assert state() == before
    assert state() == changed


def test_more_cpu_time_than_threads_fails() -> None:
    assert check_cpu_time(2.1, 1.0, 2).passed
    assert check_cpu_time(0.5, 1.0, 1).passed
    assert not check_cpu_time(1.9, 1.0, 1).passed
