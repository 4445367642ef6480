"""Ways to find steps in a history, by name: ours, and asv's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from harness.analysis.detect.replay import Step
from harness.analysis.detect.settings import DEFAULT
from harness.analysis.history.findings import Method, models
from harness.analysis.history.series import Floats
from harness.errors import UsageError, unknown


def method(name: str) -> Method:
    """The method of that name; UsageError for another, or where its library is missing."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]()


def _asv() -> Method:
    """asv's step detector, without weights, on values where up is worse; both directions.

    It has no probability, finds small steps late, and stays silent on noise.
    """
    try:
        detect_steps = import_module("asv.step_detect").detect_steps
    except ImportError:
        raise UsageError(
            "--method asv needs asv; pip install -c constraints.txt -e '.[asv]'"
        ) from None

    def find(series: Sequence[Floats]) -> list[list[Step]]:
        return [_steps(logs, detect_steps) for logs in series]

    return find


def _steps(logs: Floats, detect_steps: Callable[[list[float]], Any]) -> list[Step]:
    # Throughputs reach this as reciprocals, so that up is worse for asv too.
    levels = detect_steps(list(np.exp(logs - logs.mean())))
    found = []
    for left, right in pairwise(levels):
        effect = math.log(right[2] / left[2])
        if abs(effect) >= DEFAULT.effect:
            at = int(right[0])
            found.append(Step(len(logs) - 1, at, at, at, effect > 0, math.nan))
    return found


METHODS = {"models": models, "asv": _asv}
