"""Weak evidence pooled over cases that share a technique: small moves of many cases at once.

A change of 1 % is lost in one case's noise and plain over thirty. The cases of a technique are held
against all others of the same nights, so that what the machine did to every case cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.detect import noise
from harness.analysis.detect.settings import DEFAULT
from harness.analysis.detect.tonight import LEAST_BEFORE, MOST_BEFORE
from harness.analysis.history.findings import Finding
from harness.analysis.history.series import History, Series
from harness.analysis.student import quantile, upper_tail
from harness.suite.case import Case
from harness.technique import BASELINES

# Fewer cases on either side are no group.
LEAST = 4
# One-sided, over all techniques of a night.
TAIL = 0.002
# The newest nights that are asked together.
NEWEST = 3


@dataclass(frozen=True)
class Group:
    """The cases of one technique that moved together, on one device and metric."""

    technique: str
    metric: str
    members: tuple[int, ...]  # places in the history's series
    others: int
    effect: float  # mean move of the members beyond that of the others, up is worse
    p: float


def groups(history: History, among: Sequence[int]) -> list[Group]:
    """Techniques whose cases got worse beside all others in the newest nights.

    Args:
        history: all series.
        among: places of the series that nothing else was found in.
    """
    shared: dict[tuple[int, str, str], list[tuple[int, float, float]]] = {}
    last = len(history.nights) - 1
    for i in among:
        series = history.series[i]
        moved = _newest_move(series, last)
        if moved is not None and series.key.case_id in history.cases:
            key = series.key
            shared.setdefault((key.hardware_id, key.source, key.metric), []).append((i, *moved))
    found = []
    for (_, _, metric), rows in shared.items():
        techniques = {
            i: techniques_of(history.cases[history.series[i].key.case_id]) for i, _, _ in rows
        }
        names = sorted(set().union(*techniques.values()))
        for name in names:
            inside = [(i, z, e) for i, z, e in rows if name in techniques[i]]
            outside = [z for i, z, _ in rows if name not in techniques[i]]
            group = _group(name, metric, inside, outside, len(names))
            if group is not None:
                found.append(group)
    return found


def techniques_of(case: Case) -> frozenset[str]:
    """The techniques of a case's stack that are not a slot's baseline, or its kernel."""
    if case.stack is None:
        return frozenset({case.label})
    stack = case.stack
    slots = (stack.weights, stack.cache, stack.decoding, stack.scheduling)
    names = {choice.technique for choice in (*stack.architecture, *slots)}
    return frozenset(names - set(BASELINES.values()))


def findings(group: Group, history: History) -> list[Finding]:
    """The group's members as suspicions of their own, each with the group's evidence."""
    note = (
        f"{group.technique}: {len(group.members)} cases moved {math.expm1(group.effect):+.1%} "
        f"beside {group.others} others, p = {group.p:.1g}"
    )
    made = []
    for i in group.members:
        nights = len(history.series[i].values)
        at = nights - NEWEST
        made.append(
            Finding(i, "step", "group", at, at, nights - 1, group.effect, group.effect / 2,
                    group.effect * 2, 1 - group.p, note)
        )  # fmt: skip
    return made


def _newest_move(series: Series, last: int) -> tuple[float, float] | None:
    """(move in standard errors, move) of the newest nights; None where they are not there."""
    if series.exact or series.metric.direction == "neither" or np.any(series.values <= 0):
        return None
    before = min(MOST_BEFORE, len(series.values) - NEWEST)
    if before < LEAST_BEFORE or series.places[-1] != last:
        return None
    x = series.logs[-NEWEST - before :]
    old = x[None, :before]
    old = noise.clipped(old, noise.scale(old), DEFAULT)[0]
    sd = max(float(old.std(ddof=1)), noise.QUIETEST)
    moved = float(x[before:].mean() - old.mean())
    return moved / (sd * math.sqrt(1 / NEWEST + 1 / before)), moved


def _group(
    name: str,
    metric: str,
    inside: Sequence[tuple[int, float, float]],
    outside: Sequence[float],
    family: int,
) -> Group | None:
    """The group where its members stand above the others (Welch's t on their moves)."""
    if len(inside) < LEAST or len(outside) < LEAST:
        return None
    ours, theirs = np.array([z for _, z, _ in inside]), np.array(outside)
    parts = float(ours.var(ddof=1)) / len(ours), float(theirs.var(ddof=1)) / len(theirs)
    error = math.sqrt(sum(parts))
    dof = sum(parts) ** 2 / (parts[0] ** 2 / (len(ours) - 1) + parts[1] ** 2 / (len(theirs) - 1))
    t = float(ours.mean() - theirs.mean()) / error
    effect = float(np.mean([e for _, _, e in inside]))
    if t <= quantile(TAIL / family, dof) or effect <= 0:
        return None
    return Group(
        name, metric, tuple(i for i, _, _ in inside), len(outside), effect, upper_tail(t, dof)
    )
