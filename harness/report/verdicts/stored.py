"""Two stored sweeps to verdicts, under the conditions that both were measured in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from harness.analysis.alike import unlike_sweeps
from harness.analysis.compare import compare
from harness.analysis.interleaving import session
from harness.analysis.judge import Rules
from harness.analysis.results import results
from harness.analysis.rows import Session
from harness.analysis.sides import Stored
from harness.analysis.verdict import Verdicts
from harness.errors import NothingMeasuredError, UsageError
from harness.report import conditions
from harness.store.rows import SweepRow
from harness.sweep.resume import SIDE, given


def verdicts_of(
    base: Stored,
    head: Stored,
    at: datetime,
    metrics: Sequence[str] = (),
    rules: Rules | None = None,
) -> Verdicts:
    """What two sweeps say about each other.

    Raises:
        UsageError: of different hardware or environments.
        NothingMeasuredError: they share no case.
    """
    why = unlike_sweeps(base.sweep, head.sweep)
    if why is not None:
        raise UsageError(
            f"sweeps {base.sweep.id} and {head.sweep.id} cannot be compared: {why}; 'harness "
            "regress' tells changes of an environment from changes of code"
        )
    measured = session(base.sweep, head.sweep, base.runs, head.runs)
    told = compare(
        results(base.runs),
        results(head.runs),
        measured,
        title=f"{_short(base.sweep)} against {_short(head.sweep)}",
        at=at,
        metrics=metrics,
        rules=rules,
        hardware=head.sweep.hardware.name,
        conditions=_conditions(base.sweep, head.sweep, measured),
    )
    if not told.rows:
        named = "; ".join(f"{r.title}: {r.reason}" for r in told.refused[:3])
        raise NothingMeasuredError(
            f"sweeps {base.sweep.id} and {head.sweep.id} share no case that both measured"
            + (f" ({named})" if named else "")
        )
    return told


def _short(sweep: SweepRow) -> str:
    """A side in a title: the name it was asked for by, and its commit."""
    commit = None if sweep.revision is None else sweep.revision.commit[:12]
    name = f"sweep {sweep.id}"
    side = given(sweep.argv, SIDE)
    if side and len(sweep.argv) > 3:
        name = sweep.argv[3 if side == ["head"] else 2]
    return name if commit is None or commit.startswith(name) else f"{name} ({commit})"


def _conditions(base: SweepRow, head: SweepRow, measured: Session) -> list[tuple[str, str]]:
    sides = [
        (name, f"sweep {s.id}, {s.suite} ({s.suite_hash[:12]}), {s.status}; {conditions.code(s)}; "
               f"{conditions.when(s)}")
        for name, s in (("base", base), ("head", head))
    ]  # fmt: skip
    how = "interleaved pairs of processes in one job, order turned from pair to pair"
    if not measured.interleaved:
        how = "apart, not in one interleaved session"
    return [
        *sides,
        ("hardware", conditions.hardware(head)),
        ("versions", conditions.versions(head)),
        ("measured", how),
        ("intervals", "95 %, Student's t on the logarithms of pairs"),
    ]
