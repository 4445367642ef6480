"""Raises the number of threads when it is built."""

from __future__ import annotations

from typing import Any

import torch

from harness.selftest.wrapper import Wrapped


class Fake(Wrapped):
    """The real engine on one thread more."""

    def __init__(self, *parts: Any) -> None:
        torch.set_num_threads(torch.get_num_threads() + 1)
        super().__init__(*parts)
