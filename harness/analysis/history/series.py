"""Series: one metric of one case on one device, a value a night, put together from numbers.

A night is a sweep. Its value is the geometric mean over the processes of that night, which narrow
it and are never points of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.metrics import METRICS, Metric
from harness.store import nights as stored
from harness.store.nights import NightRow
from harness.suite.case import Case

Floats = NDArray[np.float64]


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
    def from_zero(self) -> bool:
        """Whether it is a count that was zero at times: from none to some is a change too."""
        return self.exact and bool(np.any(self.values == 0))

    @property
    def logs(self) -> Floats:
        """Logarithms, up is worse; needs positive values, or counts, and a direction.

        A count that was zero is counted from one, so that it has a logarithm.
        """
        sign = -1.0 if self.metric.direction == "higher" else 1.0
        return sign * np.log(self.values + 1 if self.from_zero else self.values)

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
