"""Memory that was never written holds NaN while a gate looks, so that it cannot pass for a result.

The references run only after the engine did, so no freed memory holds the right answer either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Every way in which Python code asks PyTorch for memory without saying what is in it.
UNWRITTEN = {
    torch.empty,
    torch.empty_like,
    torch.empty_permuted,
    torch.empty_strided,
    torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
}


class _Poison(TorchFunctionMode):
    """Fills what comes unwritten: NaN, or the largest integer, which no index or token is."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in UNWRITTEN:
            return result
        if result.is_floating_point() or result.is_complex():
            return result.fill_(torch.nan)
        return result.fill_(True if result.dtype is torch.bool else torch.iinfo(result.dtype).max)


@contextmanager
def poisoned() -> Iterator[None]:
    """Inside, `torch.empty` and its kind come filled. Algorithms stay those that are timed."""
    with _Poison():
        yield
