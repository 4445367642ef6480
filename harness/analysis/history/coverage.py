"""What is not there: cases that stopped reporting, red gates, nights without a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

from harness.analysis.history.series import History

# How many nights of its suite a case's habit is taken from.
HABIT = 20
STALE_AFTER = timedelta(days=3)


@dataclass(frozen=True)
class Silence:
    """A case that used to report on a device and does not any more; places are nights."""

    case_id: int
    hardware_id: int
    source: str
    kind: Literal["stopped", "flip"]  # "flip": a gate that passed is red
    last: int  # the last night with a number
    since: int  # the first night without
    reason: str
    suite_changed: bool  # whether the suite was another one by then


def silences(history: History) -> list[Silence]:
    """Every case that is overdue, given how regularly it reported before."""
    by_suite: dict[tuple[int, str], list[int]] = {}
    for place, night in enumerate(history.nights):
        # An unfinished night has not come to every case yet, one of some cases never will.
        if night.status == "complete" and not night.partial:
            by_suite.setdefault((night.hardware_id, night.suite), []).append(place)
    found = []
    for (case, device, source), ended in history.endings.items():
        good = sorted(place for place, (status, _) in ended.items() if status == "ok")
        if not good:
            continue
        last = good[-1]
        nights = by_suite.get((device, history.nights[last].suite), [])
        later = [place for place in nights if place > last]
        if len(later) < _overdue_after(good, nights):
            continue
        status, reason = ended.get(later[-1], ("", None))
        red = history.red_gates.get((case, device, source), {}).get(later[-1], {})
        changed = history.nights[later[0]].suite_hash != history.nights[last].suite_hash
        found.append(
            Silence(
                case, device, source, "flip" if status == "gate_failed" else "stopped", last,
                later[0], _sentence(status, reason, red, changed), changed and not status,
            )
        )  # fmt: skip
    return found


def empty_nights(history: History) -> dict[int, str]:
    """Devices whose newest night measured nothing at all, with a sentence on it."""
    newest = {night.hardware_id: place for place, night in enumerate(history.nights)}
    found = {}
    for device, place in newest.items():
        statuses = [
            ended[place][0]
            for (_, other, _), ended in history.endings.items()
            if other == device and place in ended
        ]
        if "ok" not in statuses:
            night = history.nights[place]
            worst = ", ".join(sorted(set(statuses))) or "no run was made"
            found[device] = (
                f"the sweep of {night.started_at:%Y-%m-%d %H:%M} UTC measured nothing ({worst})"
            )
    return found


def stale(history: History, now: datetime, after: timedelta = STALE_AFTER) -> dict[int, str]:
    """Devices whose newest night is too long ago, with a sentence on it."""
    newest = {night.hardware_id: night.started_at for night in history.nights}
    return {
        device: f"the last sweep was {(now - at).days} days ago, on {at:%Y-%m-%d}"
        for device, at in newest.items()
        if now - at > after
    }


def _overdue_after(good: list[int], nights: list[int]) -> int:
    """After how many silent nights a case is overdue: more than it ever left out before.

    A sweep with a budget leaves out cases and comes back to them.
    """
    order = {place: i for i, place in enumerate(nights)}
    seen = [order[place] for place in good if place in order][-HABIT:]
    gaps = [b - a for a, b in pairwise(seen)]
    return max(gaps, default=1)


def _sentence(status: str, reason: str | None, red: Mapping[str, str], changed: bool) -> str:
    if status == "gate_failed":
        names = ", ".join(red) or "a gate"
        return f"{names} turned red: {reason or 'no reason was recorded'}"
    if status:
        return f"its last run ended as {status}: {reason or 'no reason was recorded'}"
    if changed:
        return "the suite was changed and has no such case any more"
    return "no run of it is stored, though its suite is the same"
