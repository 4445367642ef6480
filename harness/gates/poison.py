"""Memory that was never written holds NaN while a gate looks, so that it cannot pass for a result.

The references run only after the engine did, so no freed memory holds the right answer either.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned() -> Iterator[None]:
    """Inside, `torch.empty` and its kind come filled with NaN (integers with their largest value).

    That is a side effect of PyTorch's deterministic mode, which may choose other algorithms too;
    the gate after timing therefore runs without it.
    """
    before = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=only_warned)
