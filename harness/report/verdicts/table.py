"""A record of verdicts as cells of text, before any layout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.analysis.verdict import VERDICTS, Need, Summary, Verdict, Verdicts
from harness.report import units

HEADER = ("case", "metric", "base", "head", "times better", "pairs", "verdict")
SUMMARY_HEADER = ("metric", "times better", "worst", "best", "cases", "left out")
LEFT = 2  # columns of HEADER that are words


def verdict(row: Verdict) -> str:
    """The verdict in words: "regressed", "unknown (nominated)"."""
    if row.nominated:
        return f"{row.verdict} (nominated)"
    if row.change is not None and row.change.state == "acknowledged":
        return f"{row.verdict} (acknowledged)"
    return row.verdict


# What all rows have in common: conditions and device, each "" where they differ.
Shared = tuple[str, str]


def shared(told: Verdicts) -> Shared:
    """The conditions and the device that all rows share, said once or not at all in the rows."""
    conditions = {row.subject.conditions for row in told.rows}
    devices = {row.subject.hardware for row in told.rows}
    return (
        conditions.pop() if len(conditions) == 1 else "",
        devices.pop() if len(devices) == 1 else "",
    )


def place(row: Verdict, common: Shared = ("", "")) -> str:
    """Case, conditions and device, as a reader needs to find it, without what is said elsewhere."""
    subject = row.subject
    parts = zip((subject.conditions, subject.hardware), common, strict=True)
    return ", ".join([subject.title, *(part for part, known in parts if part and part != known)])


def cells(row: Verdict, common: Shared = ("", "")) -> tuple[str, ...]:
    """One row under HEADER."""
    unit = row.subject.unit
    both = [units.NOTHING if v is None else units.amount(unit, v) for v in (row.base, row.head)]
    times = units.times_better(row.ratio, row.ci_low, row.ci_high)
    pairs = str(row.n or units.NOTHING)
    return (place(row, common), row.subject.metric, *both, times, pairs, verdict(row))


def conditions(told: Verdicts) -> list[tuple[str, str]]:
    """Name and value for the head of a table."""
    common, _ = shared(told)
    return [*told.conditions, *([("cases", common)] if common else [])]


def sentence(row: Verdict) -> str:
    """One row in words, for an annotation or a log."""
    unit = row.subject.unit
    parts = [f"{row.subject.metric} {verdict(row)}"]
    if row.base is not None and row.head is not None:
        parts.append(f"{units.amount(unit, row.base)} to {units.amount(unit, row.head)}")
    if row.ratio is not None:
        interval = units.times_better(row.ratio, row.ci_low, row.ci_high)
        parts.append(
            f"{interval} times better" if row.ci_low is None else f"{interval}, times better"
        )
    if row.change is not None:
        parts += changed(row)
    if row.reason:
        parts.append(row.reason)
    return "; ".join(parts)


def changed(row: Verdict) -> list[str]:
    """What a history says beside the number: kind, since when, between which commits, why."""
    change = row.change
    if change is None:
        return []
    told = [f"{change.kind}, {change.state}"]
    if change.since is not None:
        told.append(f"since {change.since:%Y-%m-%d}")
    if change.from_revision and change.to_revision:
        told.append(f"between {change.from_revision[:12]} and {change.to_revision[:12]}")
    if change.cause != "unknown":
        told.append(f"cause: {change.cause}")
    if change.confidence is not None:
        told.append(f"confidence {100 * change.confidence:.0f} %")
    if change.id:
        told.append(f"id {change.id}")
    return told


def ordered(rows: Iterable[Verdict]) -> list[Verdict]:
    """What alarms first, then by verdict, the largest change of each first."""
    rank = {name: i for i, name in enumerate(VERDICTS)}

    def key(row: Verdict) -> tuple[int, int, int, float]:
        size = 1.0 if row.ratio is None else min(row.ratio, 1 / row.ratio)
        return (not row.alarm, rank[row.verdict], not row.nominated, size)

    return sorted(rows, key=key)


def notable(rows: Iterable[Verdict]) -> list[Verdict]:
    """The rows that a reader looks for: all but the same and the plainly unknown."""
    return [r for r in rows if r.alarm or r.nominated or r.verdict not in ("same", "unknown")]


def counts(told: Verdicts) -> str:
    """How many rows have each verdict: "1 regressed, 3 unknown (2 nominated), 40 same"."""
    parts = []
    for name in VERDICTS:
        number = told.count(name)
        nominated = sum(row.nominated for row in told.rows if row.verdict == name)
        if number:
            parts.append(f"{number} {name}" + (f" ({nominated} nominated)" if nominated else ""))
    return ", ".join(parts) or "no row to compare"


def outcome(told: Verdicts) -> str:
    """The answer in one sentence."""
    alarms = len(told.alarms)
    if alarms:
        return f"{alarms} {'row' if alarms == 1 else 'rows'} to look at: {counts(told)}."
    if not told.measured:
        return f"Nothing was measured on both sides: {counts(told)}."
    return f"Nothing alarms: {counts(told)}."


def summary(row: Summary) -> tuple[str, ...]:
    """One geometric mean under SUMMARY_HEADER."""
    three = (units.times_better(v, None, None) for v in (row.ratio, row.worst, row.best))
    return (row.metric, *three, str(row.cases), str(row.left_out))


def needs(rows: Sequence[Need]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Rounds by metric and change: header and rows; "9 (31)" is the usual case and the noisiest."""
    changes = list(dict.fromkeys(row.change for row in rows))
    header = ("metric", *(f"{100 * change:g} %" for change in changes))
    found = {(row.metric, row.change): row for row in rows}
    lines = []
    for metric in dict.fromkeys(row.metric for row in rows):
        those = [found.get((metric, change)) for change in changes]
        lines.append((metric, *(_rounds(row) for row in those)))
    return header, lines


def _rounds(row: Need | None) -> str:
    if row is None or row.usual is None:
        return units.NOTHING
    if row.worst == row.usual:
        return f"{row.usual:,}"
    return f"{row.usual:,} ({units.NOTHING if row.worst is None else f'{row.worst:,}'})"


NEEDS_TITLE = "Rounds that this machine's noise needs to show a change, 19 times in 20"
NEEDS_NOTE = "of the usual case, in brackets of the noisiest; - where no number of rounds would do"
SUMMARY_TITLE = "Geometric means over the cases that both sides have"
