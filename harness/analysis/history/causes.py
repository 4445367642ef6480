"""Why a series moved: the code, what surrounds it, the benchmark itself, or nothing but noise.

Each change lies between two nights. What else differed between them, and which other cases moved at
the same time, says what it may have been; where more than one thing differs, the cause is unknown
and the reason names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from harness.analysis.history.findings import Finding
from harness.analysis.history.series import Floats, History, Series
from harness.analysis.verdict import Cause

# "All cases moved": so large a share of those that were measured on both nights, in one direction.
MOST = 2 / 3
# Fewer cases than this cannot tell what is common to them.
LEAST_CASES = 4
# A case has moved with the others when it moved by at least this share of the usual move.
ALONG = 1 / 3
# Nights on either side of a change that a move is taken from.
NIGHTS = 8


@dataclass(frozen=True)
class Circumstances:
    """What differed between the nights on either side of a change."""

    code: bool
    environment: bool
    suite: bool
    together: float | None  # share of the device's cases that moved the same way; None: too few
    canary: bool | None  # whether the pinned cases moved along; None: there are none


class Moves:
    """How far every series moved between two nights, computed once for changes that share them."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._grids: dict[tuple[int, str, str], tuple[list[int], Floats]] = {}
        self._seen: dict[tuple[int, str, str, int, int], dict[int, float]] = {}

    def between(self, series: Series, first: int, at: int) -> dict[int, float]:
        """By case, the move of each series of this one's device and metric; logs, up is worse.

        `first` and `at` are nights of the history; a series without nights near both is left out.
        """
        own = (series.key.hardware_id, series.key.source, series.key.metric)
        key = (*own, first, at)
        if key not in self._seen:
            cases, grid = self._grid(own)
            left, right = grid[:, max(first - NIGHTS + 1, 0) : first + 1], grid[:, at : at + NIGHTS]
            there = ~np.all(np.isnan(left), axis=1) & ~np.all(np.isnan(right), axis=1)
            moved = np.nanmedian(right[there], axis=1) - np.nanmedian(left[there], axis=1)
            found = [case for case, is_there in zip(cases, there, strict=True) if is_there]
            self._seen[key] = dict(zip(found, moved.tolist(), strict=True))
        return self._seen[key]

    def _grid(self, own: tuple[int, str, str]) -> tuple[list[int], Floats]:
        """Cases, and their logarithms by night, [cases, nights]; NaN without a value."""
        if own not in self._grids:
            those = [
                series
                for series in self.history.series
                if (series.key.hardware_id, series.key.source, series.key.metric) == own
                and series.metric.direction != "neither"
                and np.all(series.values > 0)
            ]
            grid = np.full((len(those), len(self.history.nights)), np.nan)
            for row, series in enumerate(those):
                grid[row, series.places] = series.logs
            self._grids[own] = [series.key.case_id for series in those], grid
        return self._grids[own]


def cause(
    finding: Finding, moves: Moves, canaries: frozenset[int] = frozenset()
) -> tuple[Cause, str]:
    """The class of a change and a sentence about it.

    Args:
        finding: the change.
        moves: of every other series.
        canaries: cases whose code does not change; where they move, the code has not done it.
    """
    seen = circumstances(finding, moves, canaries)
    most = seen.together is not None and seen.together >= MOST
    share = f"{seen.together:.0%} of the cases moved along" if seen.together is not None else ""
    if seen.canary:
        why = "at a change of driver, library or setting" if seen.environment else "unrecorded"
        return "environment", f"the pinned cases moved too, {why}"
    if seen.suite and (not seen.code or most):
        return "definition", "the suite was changed that night" + (f"; {share}" if share else "")
    if seen.environment and (most or not seen.code):
        return "environment", f"driver, library or setting changed that night; {share}".rstrip("; ")
    if most and not seen.code:
        return "environment", f"{share}, while neither code nor any recorded setting changed"
    if seen.code and not seen.environment:
        return "code", share if most else ""
    if seen.code:
        return "unknown", "code and environment changed on the same night"
    return "noise", "neither code nor environment changed, and the others stood still"


def circumstances(
    finding: Finding, moves: Moves, canaries: frozenset[int] = frozenset()
) -> Circumstances:
    """What differed between the night before the change and its first night."""
    history = moves.history
    series = history.series[finding.series]
    before = history.nights[series.places[max(finding.first - 1, 0)]]
    after = history.nights[series.places[finding.at]]
    between = history.nights[
        series.places[max(finding.first - 1, 0)] : series.places[finding.at] + 1
    ]
    same_suite = [n for n in between if n.suite == after.suite]
    together, canary = _together(finding, moves, canaries)
    return Circumstances(
        code=before.commit is None or before.commit != after.commit,
        environment=before.environment_hash != after.environment_hash,
        suite=len({n.suite_hash for n in same_suite}) > 1,
        together=together,
        canary=canary,
    )


def _together(
    finding: Finding, moves: Moves, canaries: frozenset[int]
) -> tuple[float | None, bool | None]:
    """Share of the other cases of this device and metric that moved along; whether canaries did."""
    own = moves.history.series[finding.series]
    first, at = own.places[max(finding.first - 1, 0)], own.places[finding.at]
    sign, least = np.sign(finding.effect), ALONG * abs(finding.effect)
    along = {
        case: bool(sign * moved >= least)
        for case, moved in moves.between(own, int(first), int(at)).items()
        if case != own.key.case_id
    }
    pinned = [along[case] for case in along if case in canaries]
    share = sum(along.values()) / len(along) if len(along) + 1 >= LEAST_CASES else None
    return share, (sum(pinned) > len(pinned) / 2 if pinned else None)


def pinned(patterns: Sequence[str], history: History) -> frozenset[int]:
    """The cases whose title matches one of the patterns (as in `--only`)."""
    titles: Mapping[int, str] = {i: case.title for i, case in history.cases.items()}
    return frozenset(i for i, t in titles.items() if any(fnmatchcase(t, p) for p in patterns))
