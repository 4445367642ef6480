"""A look at the whole history: what `harness regress` says tonight, and what it keeps of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from harness.analysis.detect.settings import DEFAULT, Settings
from harness.analysis.history import coverage, groups, rows
from harness.analysis.history.causes import Moves, cause, pinned
from harness.analysis.history.confirmation import PAIRS
from harness.analysis.history.coverage import STALE_AFTER, Silence
from harness.analysis.history.findings import Finding, Judged, Method, judge
from harness.analysis.history.series import History, Key, Series
from harness.analysis.verdict import Cause, Change, Refusal, State, Subject, Verdict, Verdicts
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
        (_device(history, device, why), None) for device, why in silent_devices.items()
    ]
    silences = [s for s in coverage.silences(history) if s.hardware_id not in silent_devices]
    pairs += [_silence(s, history, alerts) for s in silences]
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


def sessions(told: Sequence[Verdict], history: History) -> tuple[str, ...]:
    """For each suite, the commands that bear suspicions out, or do not."""
    suites = {
        history.cases[series.key.case_id].hash: history.nights[series.places[-1]]
        for series in history.series
        if series.key.case_id in history.cases
    }
    asked: dict[tuple[str, str, str], list[str]] = {}
    for row in told:
        night = suites.get(row.subject.case_hash)
        if row.nominated and row.change and row.change.from_revision and night and night.commit:
            key = (night.suite, row.change.from_revision, night.commit)
            titles = asked.setdefault(key, [])
            if row.subject.title not in titles:
                titles.append(row.subject.title)
    notes = []
    for (suite, base, head), titles in asked.items():
        only = " ".join(f"--only '{title}'" for title in titles)
        notes.append(
            f"to bear out {len(titles)} of them: harness compare --run {base[:12]} {head[:12]} "
            f"{suite} --rounds {PAIRS} {only} --output session.json; "
            "then: harness regress --confirm session.json"
        )
    return tuple(notes)


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
        alert = _known(finding, series, history, known, options.settings)
        why: tuple[Cause, str] = cause(finding, moves, canaries)
        state: State = "confirmed" if finding.by == "count" else "nominated"
        identity, extra = "", ""
        if alert is not None:
            state, identity = _state(alert), str(alert.id)
            if state != "nominated":
                why, extra = (_cause(alert), ""), alert.reason
        row = rows.changed(finding, series, history, why, state, identity, extra)
        stored = alert if alert is not None else _alert(row, finding, series, history)
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


def _known(
    finding: Finding,
    series: Series,
    history: History,
    known: Sequence[AlertRow],
    settings: Settings,
) -> AlertRow | None:
    """The stored alert of the same change; the newest where there are several."""
    times = [history.nights[place].started_at for place in series.places]
    for alert in reversed(known):
        if alert.kind != finding.kind:
            continue
        # What creeps has no place.
        if finding.kind == "drift" and alert.state != "acknowledged":
            return alert
        at = int(np.searchsorted(np.array([t.timestamp() for t in times]),
                                 alert.since.timestamp())) if alert.since else 0  # fmt: skip
        if abs(at - finding.at) <= settings.near:
            return alert
    return None


def _alert(row: Verdict, finding: Finding, series: Series, history: History) -> AlertRow:
    assert row.change is not None, "an alert is of a change"
    good = history.nights[series.places[max(finding.first - 1, 0)]]
    bad = history.nights[series.places[finding.at]]
    return AlertRow(
        case_id=series.key.case_id,
        hardware_id=series.key.hardware_id,
        source=series.key.source,
        metric=series.key.metric,
        kind=finding.kind,
        state=row.change.state,
        cause=row.change.cause,
        reason=row.reason,
        created_at=history.nights[series.places[finding.found]].started_at,
        since=row.change.since,
        from_revision_id=good.revision_id,
        to_revision_id=bad.revision_id,
        base=row.base,
        head=row.head,
        effect=row.ratio,
        interval_low=row.ci_low,
        interval_high=row.ci_high if row.ci_high and math.isfinite(row.ci_high) else None,
        confidence=row.change.confidence,
    )


def _silence(
    silence: Silence, history: History, alerts: Sequence[AlertRow]
) -> tuple[Verdict, AlertRow | None]:
    since, good = history.nights[silence.since], history.nights[silence.last]
    key = Key(silence.case_id, silence.hardware_id, silence.source, "")
    case = history.cases.get(silence.case_id)
    known = [
        a
        for a in alerts
        if (a.case_id, a.hardware_id, a.source) == (key.case_id, key.hardware_id, key.source)
        and a.kind == silence.kind
        and a.since == since.started_at
    ]
    state: State = _state(known[-1]) if known else "confirmed"
    why: Cause = "definition" if silence.suite_changed else "unknown"
    if not silence.suite_changed and good.commit != since.commit:
        why = "code" if good.environment_hash == since.environment_hash else "unknown"
    row = Verdict(
        subject=Subject(
            case_hash=case.hash if case else f"case {key.case_id}",
            title=case.title if case else f"case {key.case_id}",
            hardware=history.devices.get(key.hardware_id, ""),
            metric="reporting",
            unit="",
            direction="neither",
        ),
        verdict="invalid" if state != "acknowledged" else "unknown",
        reason=f"nothing since {since.started_at:%Y-%m-%d}: {silence.reason}",
        alarm=state != "acknowledged",
        change=Change(
            kind=silence.kind,
            state=state,
            cause=why,
            id=str(known[-1].id) if known else "",
            since=since.started_at,
            from_revision=good.commit,
            to_revision=since.commit,
        ),
    )
    alert = known[-1] if known else AlertRow(
        key.case_id, key.hardware_id, key.source, "reporting", silence.kind, state, why,
        row.reason, since.started_at, since.started_at, good.revision_id, since.revision_id,
    )  # fmt: skip
    return row, alert


def _device(history: History, device: int, why: str) -> Verdict:
    newest = [n for n in history.nights if n.hardware_id == device][-1]
    return Verdict(
        subject=Subject(
            case_hash="",
            title="every case",
            hardware=history.devices.get(device, ""),
            metric="reporting",
            unit="",
            direction="neither",
        ),
        verdict="invalid",
        reason=why,
        alarm=True,
        change=Change(kind="stopped", state="confirmed", since=newest.started_at),
    )


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


def _state(alert: AlertRow) -> State:
    names: dict[str, State] = {
        "nominated": "nominated",
        "confirmed": "confirmed",
        "unconfirmed": "unconfirmed",
        "acknowledged": "acknowledged",
    }
    return names.get(alert.state, "nominated")


def _cause(alert: AlertRow) -> Cause:
    names: dict[str, Cause] = {
        "code": "code", "environment": "environment", "definition": "definition", "noise": "noise",
    }  # fmt: skip
    return names.get(alert.cause, "unknown")
