"""The benchmark of detectors as text: figures, power by size of step, and a night's error."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.evaluate.run import BANDS, OURS, Row

_HEAD = (
    "detector", "precision", "recall", "F1", "false/100 nights", "per 1,000 points", "flagged",
    "within 5", "delay", "p90", ">= 3 sd",
)  # fmt: skip


def heading() -> str:
    """The line of names over `line`."""
    return _joined(_HEAD)


def line(row: Row) -> str:
    """One detector's figures.

    False alerts are counted in series in which nothing changed: in 100 nightly looks, and in 1,000
    points. "flagged" is the share of those series with any; "within 5" the share of steps found in
    five nights; "delay" the median of those found, 0 on the first changed night; ">= 3 sd" the
    recall of steps of three standard deviations of a night and more.
    """
    s = row.whole
    points = s.quiet_nights + 9 * s.quiet_trials
    return _joined(
        (
            row.name,
            _number(s.precision),
            _number(s.recall),
            _number(s.f1, 3),
            _number(s.false_per_100_nights),
            _number(1000 * s.quiet_false / points if points else None, 1),
            _number(s.quiet_flagged / s.quiet_trials if s.quiet_trials else None),
            _number(s.soon),
            _number(s.delay(0.5), 0),
            _number(s.delay(0.9), 0),
            _number(s.clear_recall),
        )
    )


def power(rows: Sequence[Row]) -> list[str]:
    """Recall by the size of the step against a night's noise, and false alerts by scenario."""
    names = [_band(low, high) for low, high in BANDS]
    scenarios = list(rows[0].by_scenario) if rows else []
    lines = ["recall by step in standard deviations of a night, then false alerts/100 nights"]
    width = 30
    lines.append(f"{'detector':{width}}" + "".join(f"{n:>9}" for n in (*names, *scenarios)))
    for row in rows:
        shares = [_number(h / n if n else None) for h, n in row.power.values()]
        false = [_number(row.by_scenario[s].false_per_100_nights) for s in scenarios]
        lines.append(f"{row.name:{width}}" + "".join(f"{v:>9}" for v in (*shares, *false)))
    return lines


def night_errors(found: Sequence[tuple[int, float, Row]]) -> list[str]:
    """What several processes a night add to our detector, on plain noise."""
    lines = [
        "processes a night, where half of a night's variance is the session's and shared by them",
        f"{'processes':>10}{'night error':>13}{'F1':>7}{'recall':>8}{'delay':>7}",
    ]
    for processes, error, row in found:
        s = row.whole
        lines.append(
            f"{processes:>10}{error:>13.2f}{_number(s.f1):>7}{_number(s.recall):>8}"
            f"{_number(s.delay(0.5), 0):>7}"
        )
    return lines


def blind_spot(rows: Sequence[Row]) -> str:
    """One sentence on what our gate cannot see."""
    ours = [row for row in rows if row.name == OURS and row.collection == "grid"]
    if not ours:
        return ""
    shares = ours[0].power
    unseen = [band for band, (hits, steps) in shares.items() if steps and hits < 0.5 * steps]
    if not unseen:
        return "It sees more than half of the steps of every size."
    return f"Of steps below {max(high for _, high in unseen):.0f} sd of a night it misses most."


def _band(low: float, high: float) -> str:
    if high == float("inf"):
        return f">={low:.0f} sd"
    return f"{low:.0f}-{high:.0f} sd"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _joined(cells: Sequence[str]) -> str:
    widths = (30, 10, 7, 7, 17, 17, 8, 9, 6, 5, 8)
    first, *rest = cells
    return f"{first:{widths[0]}}" + "".join(
        f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)
    )
