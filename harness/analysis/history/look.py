"""A look at the whole history: what `harness regress` says tonight, and what it keeps of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from harness.analysis.detect.settings import DEFAULT, Settings
from harness.analysis.history import coverage, groups, rows
from harness.analysis.history.alerts import alert_of, cause_of, found_again, state_of
from harness.analysis.history.causes import Moves, cause, pinned
from harness.analysis.history.confirmation import sessions
from harness.analysis.history.coverage import STALE_AFTER
from harness.analysis.history.findings import Finding, Judged, Method, judge
from harness.analysis.history.series import History, Key, Series
from harness.analysis.history.silent import silent_case, silent_device
from harness.analysis.verdict import Cause, Change, Refusal, State, Verdict, Verdicts
from harness.store.alerts import AlertRow, LevelRow


@dataclass(frozen=True)
class Options:
    """What a user may set of a look."""

    settings: Settings = DEFAULT
    method: Method | None = None  # finds steps; None: the harness's own models
    canaries: tuple[str, ...] = ()  # titles of cases whose code does not change, as patterns
    stale_after: timedelta = STALE_AFTER


@dataclass(frozen=True)
class Look:
    """What was seen: verdicts for people, and alerts for the store."""

    verdicts: Verdicts
    alerts: tuple[AlertRow, ...] = field(default=())  # new ones have id 0
    places: tuple[int, ...] = field(default=())  # which row of the verdicts each alert is


def look(
    history: History,
    alerts: Sequence[AlertRow],
    levels: Sequence[LevelRow],
    now: datetime,
    options: Options | None = None,
) -> Look:
    """Judge every series against what was accepted and what is known already."""
    options = options or Options()
    refused = tuple(Refusal(title=title, reason=reason) for title, reason in history.refused)
    if not history.nights:
        return Look(_verdicts(history, now, (), refused, ("there is no sweep to look at yet",)))
    old = coverage.stale(history, now, options.stale_after)
    silent_devices = coverage.empty_nights(history) | old
    pairs: list[tuple[Verdict, AlertRow | None]] = [
        (silent_device(history, device, why), None) for device, why in silent_devices.items()
    ]
    silences = [s for s in coverage.silences(history) if s.hardware_id not in silent_devices]
    pairs += [silent_case(s, history, alerts) for s in silences]
    quiet = {(s.case_id, s.hardware_id, s.source) for s in silences}
    seen = [
        s
        for s in history.series
        if s.key.hardware_id not in silent_devices
        and (s.key.case_id, s.key.hardware_id, s.key.source) not in quiet
    ]
    history = replace(history, series=tuple(seen))
    pairs += _series(history, alerts, levels, options)
    kept = [(place, row) for place, (_, row) in enumerate(pairs) if row is not None]
    told = tuple(verdict for verdict, _ in pairs)
    return Look(
        _verdicts(history, now, told, refused, sessions(told, history)),
        tuple(row for _, row in kept),
        tuple(place for place, _ in kept),
    )


def with_ids(seen: Look, numbers: Sequence[int]) -> Verdicts:
    """The verdicts with the numbers that their alerts were stored under."""
    made = list(seen.verdicts.rows)
    for place, number in zip(seen.places, numbers, strict=True):
        change = made[place].change
        assert change is not None, "a row with an alert has a change"
        update = {"change": change.model_copy(update={"id": str(number)})}
        made[place] = made[place].model_copy(update=update)
    return seen.verdicts.model_copy(update={"rows": tuple(made)})


def _series(
    history: History,
    alerts: Sequence[AlertRow],
    levels: Sequence[LevelRow],
    options: Options,
) -> list[tuple[Verdict, AlertRow | None]]:
    canaries = pinned(options.canaries, history)
    starts = _starts(history, levels)
    judged = judge(history.series, starts, options.settings, options.method)
    # What the newest nights say of one case by itself is part of the group's evidence.
    still = [
        i
        for i, j in enumerate(judged)
        if not j.refused and all(f.by == "tonight" for f in j.findings)
    ]
    together: dict[int, Finding] = {}
    for group in groups.groups(history, still):
        for finding in groups.findings(group, history):
            if not judged[finding.series].findings:
                together.setdefault(finding.series, finding)
    known: dict[Key, list[AlertRow]] = {}
    for alert in alerts:
        key = Key(alert.case_id, alert.hardware_id, alert.source, alert.metric)
        known.setdefault(key, []).append(alert)
    moves = Moves(history)
    pairs: list[tuple[Verdict, AlertRow | None]] = []
    for i, (series, one) in enumerate(zip(history.series, judged, strict=True)):
        if i in together:
            one = Judged((together[i],), one.sd, one.smallest)
        pairs += _one(series, one, moves, known.get(series.key, []), starts, i, canaries, options)
    return pairs


def _one(
    series: Series,
    judged: Judged,
    moves: Moves,
    known: Sequence[AlertRow],
    starts: Mapping[int, tuple[int, float | None]],
    i: int,
    canaries: frozenset[int],
    options: Options,
) -> list[tuple[Verdict, AlertRow | None]]:
    """The rows of one series: its open changes, or how it stands."""
    history = moves.history
    made: list[tuple[Verdict, AlertRow | None]] = []
    for finding in rows.open_changes(judged.findings):
        alert = found_again(finding, series, history, known, options.settings)
        why: tuple[Cause, str] = cause(finding, moves, canaries)
        state: State = "confirmed" if finding.by == "count" else "nominated"
        identity, extra = "", ""
        if alert is not None:
            state, identity = state_of(alert), str(alert.id)
            if state != "nominated":
                why, extra = (cause_of(alert), ""), alert.reason
        row = rows.changed(finding, series, history, why, state, identity, extra)
        stored = alert if alert is not None else alert_of(row, finding, series, history)
        made.append((row, stored))
    if made:
        return made
    better = [f for f in judged.findings if not f.worse and f.kind != "noise"]
    newest = len(series.values) - rows.RECENT
    if better and better[-1].at >= newest:
        why = cause(better[-1], moves, canaries)
        return [(rows.changed(better[-1], series, history, why, "confirmed"), None)]
    row = rows.standing(series, judged, history, starts.get(i, (0, None))[0])
    noise = [f for f in judged.findings if f.kind == "noise"]
    if noise:
        since = history.nights[series.places[noise[-1].at]].started_at
        change = Change(kind="noise", state="confirmed", cause="noise", since=since)
        reason = "; ".join(part for part in (noise[-1].note, row.reason) if part)
        row = row.model_copy(update={"change": change, "reason": reason})
    return [(row, None)]


def _starts(history: History, levels: Sequence[LevelRow]) -> dict[int, tuple[int, float | None]]:
    """From which of its nights on each series has an accepted level, and which."""
    newest = {
        Key(row.case_id, row.hardware_id, row.source, row.metric): row
        for row in sorted(levels, key=lambda row: (row.created_at, row.since))
    }
    found = {}
    for i, series in enumerate(history.series):
        row = newest.get(series.key)
        if row is not None:
            began = [history.nights[place].started_at >= row.since for place in series.places]
            at = int(np.argmax(began)) if any(began) else len(began) - 1
            found[i] = at, row.level
    return found


def _verdicts(
    history: History,
    now: datetime,
    made: tuple[Verdict, ...],
    refused: tuple[Refusal, ...],
    notes: tuple[str, ...],
) -> Verdicts:
    nights = history.nights
    conditions = []
    if nights:
        first, last = nights[0], nights[-1]
        conditions = [
            ("nights", f"{len(nights)}, {first.started_at:%Y-%m-%d} to {last.started_at:%Y-%m-%d}"),
            ("branch", last.branch or "none"),
            ("series", str(len(history.series))),
        ]
    return Verdicts(
        tool="regress",
        title=f"{nights[-1].commit or 'unknown code'}"[:12] if nights else "no history",
        at=now,
        conditions=tuple(conditions),
        rows=made,
        refused=refused,
        notes=notes,
    )
