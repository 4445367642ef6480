"""The nights of one branch in a line, read whole from the store with everything they measured."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analysis.history.series import History, assembled
from harness.analysis.results import SEVERITY
from harness.errors import UsageError
from harness.metrics import METRICS
from harness.store import nights as stored
from harness.store.nights import NightRow
from harness.store.reader import Reader

# Older nights say nothing about tonight.
MOST_NIGHTS = 400
_SEVERITY: dict[str, int] = {name: i for i, name in enumerate(SEVERITY)}


def read(reader: Reader, branch: str | None = None, most: int = MOST_NIGHTS) -> History:
    """The history of one branch.

    Args:
        reader: an open database.
        branch: its name; None takes the newest sweep's. Nights of other branches are left out, and
            so are uncommitted changes, unless there is nothing else: neither is a place in a line.
        most: nights a device, the newest.
    """
    every = stored.nights(reader, most)
    rows, refused = in_line(every, branch)
    if not rows:
        return History((), (), {}, {}, {}, {}, tuple(refused))
    places = stored.sequence_of(rows)
    first = min(places)
    cases = reader.cases()
    by_id = {i: cases[h] for i, h in stored.case_ids(reader).items() if h in cases}
    wrong = _wrong_units(stored.sample_units(reader))
    series, left_out = assembled(stored.numbers(reader, first), places, wrong)
    refused += left_out
    endings: dict[tuple[int, int, str], dict[int, tuple[str, str | None]]] = {}
    last = _last_attempts(stored.endings(reader, first))
    for case, device, source, sweep, _, _, status, reason in last:
        if sweep in places:
            ended = endings.setdefault((case, device, source), {})
            known = ended.get(places[sweep])
            if known is None or _worse(status, known[0]):
                ended[places[sweep]] = status, reason
    red: dict[tuple[int, int, str], dict[int, dict[str, str]]] = {}
    for case, device, source, sweep, name, detail in stored.red_gates(reader, first):
        if sweep in places:
            red.setdefault((case, device, source), {}).setdefault(places[sweep], {})[name] = detail
    return History(
        tuple(rows), tuple(series), by_id, stored.devices(reader), endings, red, tuple(refused)
    )


def in_line(
    rows: Sequence[NightRow], branch: str | None
) -> tuple[list[NightRow], list[tuple[str, str]]]:
    """The nights that follow each other, and what was left out of them: (what, why).

    A night that measured a commit older than one measured before it is a look back (a bisection, a
    backfill, a clock that was set); it says nothing about tonight and is no place in the line.

    Raises:
        UsageError: no sweep is of that branch.
    """
    if not rows:
        return [], []
    if branch is not None and all(row.branch != branch for row in rows):
        known = sorted({row.branch for row in rows if row.branch})
        raise UsageError(
            f"no sweep is of branch '{branch}'; there are: {', '.join(known) or 'none with a name'}"
        )
    wanted = branch if branch is not None else rows[-1].branch
    kept = [row for row in rows if row.branch == wanted]
    refused = []
    if len(kept) < len(rows):
        others = len(rows) - len(kept)
        refused.append(("other branches", f"{others} sweeps are not of {wanted or 'no branch'}"))
    clean = [row for row in kept if not row.dirty]
    if clean and len(clean) < len(kept):
        refused.append(
            ("uncommitted changes", f"{len(kept) - len(clean)} sweeps measured code of no commit")
        )
        kept = clean
    line: list[NightRow] = []
    newest: dict[int, NightRow] = {}
    back = 0
    for row in kept:
        before = newest.get(row.hardware_id)
        if before and _is_older(row, before):
            back += 1
            continue
        line.append(row)
        newest[row.hardware_id] = row
    if back:
        refused.append(("looks back", f"{back} sweeps measured a commit older than one before"))
    return line, refused


def _is_older(row: NightRow, than: NightRow) -> bool:
    """Whether it measured an older commit. Several nights of one commit are nights in a line."""
    if row.committed_at is None or than.committed_at is None or row.commit == than.commit:
        return False
    return row.committed_at < than.committed_at


def _last_attempts(rows: Sequence[stored.Ending]) -> list[stored.Ending]:
    last: dict[tuple[int, int, str, int, int], stored.Ending] = {}
    for row in rows:
        known = last.get(row[:5])
        if known is None or known[5] < row[5]:
            last[row[:5]] = row
    return list(last.values())


def _worse(status: str, than: str) -> bool:
    return _SEVERITY.get(status, -1) < _SEVERITY.get(than, -1)


def _wrong_units(units: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Metrics whose samples are stored in a unit that is not the metric's, with the sentence."""
    wrong: dict[str, str] = {}
    for metric, unit in sorted(units):
        if metric in METRICS and unit != METRICS[metric].unit:
            wrong[metric] = (
                f"some of it is stored in {unit} and not in {METRICS[metric].unit}, so its values "
                "cannot be put in a line"
            )
    return wrong
