"""Levels that are right from now on, and the log of every change that was ever found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from harness.analysis.history.series import History
from harness.errors import UsageError
from harness.metrics import metric as find_metric
from harness.store import nights as stored
from harness.store.alerts import AlertRow, LevelRow
from harness.store.reader import Reader


def newest_levels(
    history: History, only: str, metric: str | None, reason: str, now: datetime
) -> list[LevelRow]:
    """The newest night of each matching series as its accepted level.

    Raises:
        UsageError: no series matches, the metric is unknown, or no reason is given.
    """
    if not reason.strip():
        raise UsageError("an accepted level needs a reason")
    if metric is not None:
        find_metric(metric)
    made = []
    for series in history.series:
        case = history.cases.get(series.key.case_id)
        if case is None or not fnmatchcase(case.title, only):
            continue
        if metric is None or series.metric.name == metric:
            key = series.key
            since = history.nights[series.places[-1]].started_at
            made.append(
                LevelRow(
                    key.case_id, key.hardware_id, key.source, key.metric, since, None, reason, now
                )
            )
    if not made:
        raise UsageError(f"no series is of a case '{only}'; 'harness regress' lists them")
    return made


def log_lines(reader: Reader, alerts: Sequence[AlertRow]) -> Iterator[str]:
    """One line a change, oldest first."""
    if not alerts:
        yield "no change was found yet"
        return
    cases, numbers = reader.cases(), stored.case_ids(reader)
    devices = stored.devices(reader)
    for row in alerts:
        case = cases.get(numbers.get(row.case_id, ""))
        title = case.title if case else f"case {row.case_id}"
        since = f"{row.since:%Y-%m-%d}" if row.since else "?"
        size = f" {row.effect:.3f} times as good" if row.effect else ""
        where = devices.get(row.hardware_id, "")
        yield (
            f"{row.id:>5}  {row.state:12} {row.kind:8} {row.cause:12} since {since}  "
            f"{title} {row.metric} ({where}){size}  {row.reason}"
        )
