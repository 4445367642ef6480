"""A trial: a series whose truth is known. All about one follows from its name and the seed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Parameters are chosen on one half and judged on the other, which is looked at once, at the end.
Half = Literal["tuning", "held", "both"]
# A step has at least this many nights before it and this many that show it.
BEFORE, AFTER = 8, 5


@dataclass(frozen=True)
class Trial:
    """One series of a metric where up is worse, and where its one step for the worse is, if any."""

    name: str
    values: Floats
    truth: int | None  # the first night at the new level; None: nothing changed
    scenario: str
    noise: float  # relative standard deviation of one night around the scenario's own pattern
    step: float  # relative size; 0 without a step


def generator(seed: int, name: str) -> np.random.Generator:
    """Random numbers that belong to this name, whichever other trials are made."""
    digest = sha256(f"{seed}:{name}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8]))


def of_half(trials: Iterable[Trial], half: Half) -> list[Trial]:
    """Those of the half, by a hash of their names."""
    return [t for t in trials if half == "both" or half_of(t.name) == half]


def half_of(name: str) -> Half:
    """Which half a name belongs to: the first bit of its SHA-256."""
    return "held" if sha256(name.encode()).digest()[0] >= 128 else "tuning"
