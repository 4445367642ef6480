"""What is missing, as rows that alarm: a case that stopped reporting, a device without a night."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.history.alerts import state_of
from harness.analysis.history.coverage import Silence
from harness.analysis.history.series import History, Key
from harness.analysis.verdict import Cause, Change, State, Subject, Verdict
from harness.store.alerts import AlertRow


def silent_case(
    silence: Silence, history: History, alerts: Sequence[AlertRow]
) -> tuple[Verdict, AlertRow | None]:
    """A case that reported and does not any more, with its alert."""
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
    state: State = state_of(known[-1]) if known else "confirmed"
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


def silent_device(history: History, device: int, why: str) -> Verdict:
    """Every case of a device at once: its last night measured nothing, or is long ago."""
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
