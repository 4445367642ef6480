"""Looking again: verdicts on pairs that were gathered until something showed.

Who looks after every few rounds and stops at the first difference finds one sooner or later, also
where there is none. So the rounds at which a comparison looks are fixed before it begins, and each
look may spend a share of the error; the shares add up to 1 however many looks there are. Everything
is computed from the pairs themselves, look by look, so that a stored session is judged as it was
when it ran.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from harness.analysis.judge import Evidence, Rules, Ruling, judge

FIRST = 6  # rounds before the first look: fewer pairs show changes of 10 % at best
GROWTH = 1.5  # rounds from one look to the next


def share(look: int) -> float:
    """The share of look 1, 2, ...: 1/2, 1/6, 1/12 and so on, which add up to 1."""
    return 1 / (look * (look + 1))


def schedule(first: int = FIRST) -> Iterator[int]:
    """Rounds after which to look: 6, 9, 14, 21, 32 and so on."""
    for _ in count():
        yield first
        first = math.ceil(first * GROWTH)


@dataclass(frozen=True)
class Row:
    """One row's pairs with the round of each, counted from 0."""

    metric: str
    logs: tuple[float, ...]
    rounds: tuple[int, ...]
    exact: bool = False

    def until(self, bound: int) -> tuple[float, ...]:
        """The pairs of the rounds before `bound`."""
        return tuple(v for v, r in zip(self.logs, self.rounds, strict=True) if r < bound)


def judge_looks(rows: Sequence[Row], first: int, rules: Rules | None = None) -> list[Ruling]:
    """A ruling for each row, a pair at least, after all the looks that its pairs were gathered in.

    Args:
        rows: the whole family.
        first: rounds before the first look.
        rules: what counts as a change.
    """
    most = max((r for row in rows for r in row.rounds), default=0) + 1
    seen: list[Evidence | None] = [None] * len(rows)
    rulings: list[Ruling] = []
    for look, bound in enumerate(schedule(first), 1):
        for i, row in enumerate(rows):
            logs, known = row.until(bound), seen[i]
            if known is not None and len(logs) == len(known.logs):
                continue  # nothing new of this row: it keeps the look at which it stopped
            spent = (1.0, 1.0) if known is None else known.spent
            if logs:
                seen[i] = Evidence(row.metric, logs, row.exact, share(look), spent)
        places = [i for i, evidence in enumerate(seen) if evidence is not None]
        rulings = judge([e for e in seen if e is not None], rules)
        for i, ruling in zip(places, rulings, strict=True):
            evidence = seen[i]
            assert evidence is not None
            seen[i] = replace(evidence, spent=ruling.spent)
        if bound >= most:
            return rulings
    raise AssertionError("a schedule has no end")


def judge_once(rows: Sequence[Row], rules: Rules | None = None) -> list[Ruling]:
    """A ruling for each row where the number of rounds was fixed before."""
    return judge([Evidence(row.metric, row.logs, row.exact) for row in rows], rules)
