"""Alerts: what the store keeps of a change, and how it is found again on later nights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from harness.analysis.detect.settings import Settings
from harness.analysis.history.findings import Finding
from harness.analysis.history.series import History, Series
from harness.analysis.verdict import Cause, State, Verdict
from harness.store.alerts import AlertRow


def found_again(
    finding: Finding,
    series: Series,
    history: History,
    stored: Sequence[AlertRow],
    settings: Settings,
) -> AlertRow | None:
    """The stored alert of the same change; the newest where there are several."""
    times = [history.nights[place].started_at for place in series.places]
    for alert in reversed(stored):
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


def alert_of(row: Verdict, finding: Finding, series: Series, history: History) -> AlertRow:
    """A new alert of a change; the store gives it its number."""
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


def state_of(alert: AlertRow) -> State:
    """What became of an alert; a state of a newer harness counts as a suspicion."""
    names: dict[str, State] = {
        "nominated": "nominated",
        "confirmed": "confirmed",
        "unconfirmed": "unconfirmed",
        "acknowledged": "acknowledged",
    }
    return names.get(alert.state, "nominated")


def cause_of(alert: AlertRow) -> Cause:
    """What its night took for the cause."""
    names: dict[str, Cause] = {
        "code": "code", "environment": "environment", "definition": "definition", "noise": "noise",
    }  # fmt: skip
    return names.get(alert.cause, "unknown")
