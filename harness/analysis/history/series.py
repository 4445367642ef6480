"""Series: one metric of one case on one device, a value a night, read whole from the store.

A night is a sweep. Its value is the geometric mean over the processes of that night, which narrow
it and are never points of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.analysis.results import SEVERITY
from harness.errors import UsageError
from harness.metrics import METRICS, Metric
from harness.store import nights as stored
from harness.store.nights import NightRow
from harness.store.reader import Reader
from harness.suite.case import Case

Floats = NDArray[np.float64]
# Older nights say nothing about tonight.
MOST_NIGHTS = 400
_SEVERITY: dict[str, int] = {name: i for i, name in enumerate(SEVERITY)}


@dataclass(frozen=True)
class Key:
    """What a series is of; ids are those of the database."""

    case_id: int
    hardware_id: int
    source: str  # measured | static
    metric: str


@dataclass(frozen=True)
class Series:
    """A metric over nights. Only nights with a value; `places` are those nights in the history."""

    key: Key
    metric: Metric
    places: NDArray[np.intp]  # [T] indices into `History.nights`, rising
    values: Floats  # [T] in the metric's unit
    errors: Floats  # [T] relative standard error of a night over its processes; NaN for one process

    @property
    def exact(self) -> bool:
        """Whether it repeats to the digit, as counted bytes do: any change of it is real."""
        return self.key.source == "static" or (self.metric.unit == "bytes" and self._repeats())

    @property
    def logs(self) -> Floats:
        """Logarithms, up is worse; needs positive values and a direction."""
        sign = -1.0 if self.metric.direction == "higher" else 1.0
        return sign * np.log(self.values)

    def _repeats(self) -> bool:
        same = np.count_nonzero(self.values[1:] == self.values[:-1])
        return len(self.values) > 1 and bool(same >= 0.9 * (len(self.values) - 1) - 1)


@dataclass(frozen=True)
class History:
    """Everything that `harness regress` looks at."""

    nights: tuple[NightRow, ...]  # oldest first
    series: tuple[Series, ...]
    cases: Mapping[int, Case]  # by id
    devices: Mapping[int, str]  # names by id
    # case, device, source -> place of the night -> (status, reason): the last attempts' worst
    endings: Mapping[tuple[int, int, str], Mapping[int, tuple[str, str | None]]]
    red_gates: Mapping[tuple[int, int, str], Mapping[int, Mapping[str, str]]]
    refused: tuple[tuple[str, str], ...] = field(default=())  # what is left out, and why


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


def assembled(
    numbers: Sequence[stored.Number], places: Mapping[int, int], wrong_units: Mapping[str, str]
) -> tuple[list[Series], list[tuple[str, str]]]:
    """Series out of single numbers, and what is left out: (metric, why)."""
    refused: dict[str, str] = {}
    for metric in {row[3] for row in numbers}:
        if metric in wrong_units:
            refused[metric] = wrong_units[metric]
        elif metric not in METRICS:
            refused[metric] = "this harness does not know it, so neither which way is better"
    rows = [row for row in numbers if row[4] in places and row[3] not in refused]
    made = _grouped(rows, places) if rows else []
    return made, sorted(refused.items())


def _grouped(rows: Sequence[stored.Number], places: Mapping[int, int]) -> list[Series]:
    """Half a million rows at once: sorted, cut into nights, and those into series."""
    case, device, source, metric, sweep, number, attempt, value = zip(*rows, strict=True)
    names, sources = sorted(set(metric)), sorted(set(source))
    name_of = {name: i for i, name in enumerate(names)}
    source_of = {name: i for i, name in enumerate(sources)}
    keys = np.array(
        [
            case,
            device,
            [source_of[s] for s in source],
            [name_of[m] for m in metric],
            [places[s] for s in sweep],
            number,
            attempt,
        ],
        dtype=np.int64,
    )  # [7, R]
    values = np.array([np.nan if v is None else v for v in value], dtype=float)
    order = np.lexsort(keys[::-1])
    keys, values = keys[:, order], values[order]
    # The last attempt of each round, where it has a value.
    kept = np.append(np.any(keys[:6, 1:] != keys[:6, :-1], axis=0), True) & ~np.isnan(values)
    keys, values = keys[:, kept], values[kept]
    if not len(values):
        return []
    nights = _starts(keys[:5])
    levels, errors = _levels(values, nights)
    at, of = keys[4, nights], keys[:4, nights]
    begins = _starts(of)
    made = []
    for begin, end in pairwise([*begins.tolist(), len(nights)]):
        case_id, hardware_id, which, name = (int(part) for part in of[:, begin])
        made.append(
            Series(
                Key(case_id, hardware_id, sources[which], names[name]),
                METRICS[names[name]],
                at[begin:end].astype(np.intp),
                levels[begin:end],
                errors[begin:end],
            )
        )
    return made


def _starts(keys: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where a new key begins, [G], of sorted ones, [K, R]."""
    return np.flatnonzero(np.append(True, np.any(keys[:, 1:] != keys[:, :-1], axis=0)))


def _levels(values: Floats, nights: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Each night's value over its processes, and its relative error; `nights` where each begins."""
    counts = np.diff(np.append(nights, len(values)))
    least, most = np.minimum.reduceat(values, nights), np.maximum.reduceat(values, nights)
    logs = np.log(np.where(values > 0, values, 1.0))
    means = np.add.reduceat(logs, nights) / counts
    squares = np.add.reduceat((logs - np.repeat(means, counts)) ** 2, nights)
    with_spread = np.maximum(counts - 1, 1) * counts
    errors = np.where(counts > 1, np.sqrt(squares / with_spread), np.nan)
    # What repeats to the digit keeps its digits: no logarithm there and back.
    levels = np.where(least == most, values[nights], np.exp(means))
    for i in np.flatnonzero((least <= 0) & (least != most)):
        levels[i] = np.median(values[nights[i] : nights[i] + counts[i]])
        errors[i] = np.nan
    return levels, errors


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
