"""Whether two stored sweeps are the two sides of one interleaved session, by what they recorded.

The mark in their command lines says that one job made both; the places of their runs in that job
say that the two runs of each pair stood side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.looks import FIRST
from harness.analysis.rows import Session
from harness.store.rows import StoredRun, SweepRow
from harness.sweep.resume import SESSION, given

ROUNDS = "--rounds"  # a fixed number of rounds; without it they are added while cases are unknown


def session(
    base: SweepRow,
    head: SweepRow,
    base_runs: Sequence[StoredRun],
    head_runs: Sequence[StoredRun],
) -> Session:
    """How the two were measured with respect to each other."""
    mark = given(base.argv, SESSION) if base.argv[:1] == ("compare",) else []
    if not mark or mark != given(head.argv, SESSION) or base.uid == head.uid:
        return Session(interleaved=False)
    if not _side_by_side(base_runs, head_runs):
        return Session(interleaved=False)
    return Session(interleaved=True, first=None if given(base.argv, ROUNDS) else FIRST)


def _side_by_side(base: Sequence[StoredRun], head: Sequence[StoredRun]) -> bool:
    """Whether the two runs of every pair had neighbouring places, some before and some after."""
    theirs = _places(base)
    apart = [place - theirs[key] for key, place in _places(head).items() if key in theirs]
    # One side always first would give it all of what comes first: a cool device, a cold cache.
    balanced = len(apart) < 2 or {1, -1} <= set(apart)
    return bool(apart) and balanced and all(abs(distance) == 1 for distance in apart)


def _places(runs: Sequence[StoredRun]) -> dict[tuple[str, int], int]:
    """The place in the job of each case's rounds that had a process."""
    return {
        (run.case.hash, run.record.round): run.record.order_slot
        for run in runs
        if run.record.seconds > 0
    }
