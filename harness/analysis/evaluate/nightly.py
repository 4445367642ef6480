"""Simulated months of nightly jobs: many cases, sessions and processes, suspicions and reruns.

Every night is a session with a state of its own for each case, which all processes of that night
share; so is every rerun. What raises suspicions and what bears them out is the product's own code:
the newest nights, the history's models, the accepted level, then the ruling on interleaved pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.detect import drift
from harness.analysis.detect.replay import Step, replay
from harness.analysis.detect.settings import DEFAULT
from harness.analysis.detect.tonight import MOST_BEFORE, NEWEST, look
from harness.analysis.evaluate.trials import Floats
from harness.analysis.history.confirmation import PAIRS
from harness.analysis.judge import Evidence, judge


@dataclass(frozen=True)
class Setup:
    """One configuration for quiet months and for planted changes."""

    cases: int = 200
    processes: int = 3  # a night
    process_sd: float = 0.01
    session_sd: float = 0.01
    history: int = 60  # nights before the first that is judged
    seed: int = 1


@dataclass(frozen=True)
class Months:
    """What a simulation came to."""

    nights: int
    candidates: int  # cases that were run again
    alarm_nights: int  # nights with an alarm on a case in which nothing changed
    false_alarms: int
    planted: int
    found: tuple[int, ...]  # of the planted ones, found by night 1, 2, ...


def quiet(setup: Setup, nights: int) -> Months:
    """Nights in which no code changes."""
    random = np.random.default_rng([setup.seed, 0])
    levels = _measured(setup, random, setup.history + nights)
    planted: dict[int, int] = {}
    return _judged(setup, random, levels, planted, setup.history, nights)


def planted(setup: Setup, size: float, share: float, times: int, nights: int = 4) -> Months:
    """Months in which a share of the cases slows down by `size`, on the first judged night."""
    total = Months(0, 0, 0, 0, 0, (0,) * nights)
    for time in range(times):
        random = np.random.default_rng([setup.seed, 1, time])
        levels = _measured(setup, random, setup.history + nights)
        chosen = random.choice(setup.cases, round(share * setup.cases), replace=False)
        levels[chosen, setup.history :] += math.log1p(size)
        one = _judged(setup, random, levels, {int(c): setup.history for c in chosen},
                      setup.history, nights, size)  # fmt: skip
        total = Months(
            total.nights + one.nights,
            total.candidates + one.candidates,
            total.alarm_nights + one.alarm_nights,
            total.false_alarms + one.false_alarms,
            total.planted + one.planted,
            tuple(a + b for a, b in zip(total.found, one.found, strict=True)),
        )
    return total


def _measured(setup: Setup, random: np.random.Generator, nights: int) -> Floats:
    """Logarithms of each night's value, up is worse, [cases, nights]."""
    shape = setup.cases, nights
    session = setup.session_sd * random.standard_normal(shape)
    each = setup.process_sd * random.standard_normal((*shape, setup.processes))
    return np.asarray(session + each.mean(axis=2))


def _judged(
    setup: Setup,
    random: np.random.Generator,
    levels: Floats,
    since: dict[int, int],
    start: int,
    nights: int,
    size: float = 0.0,
) -> Months:
    window = range(start, start + nights)
    steps = _by_night(replay(list(levels), DEFAULT, lambda _: list(window)))
    rejected: dict[int, list[int]] = {}
    done: set[int] = set()
    found = [0] * nights
    candidates = alarm_nights = false_alarms = 0
    for night in window:
        suspects = _suspects(levels, night, steps.get(night, []))
        asked = {
            case: (at, first)
            for case, (at, first) in suspects.items()
            if case not in done
            and all(abs(at - other) > DEFAULT.near for other in rejected.get(case, []))
        }
        candidates += len(asked)
        held = _session(setup, random, asked, since, night, size)
        wrong = 0
        for case, (at, _) in asked.items():
            if case not in held:
                rejected.setdefault(case, []).append(at)
            elif case in since:
                done.add(case)
                for later in range(night - start, nights):
                    found[later] += 1
            else:
                done.add(case)
                wrong += 1
        alarm_nights += wrong > 0
        false_alarms += wrong
    return Months(nights, candidates, alarm_nights, false_alarms, len(since), tuple(found))


def _suspects(
    levels: Floats, night: int, steps: Sequence[tuple[int, Step]]
) -> dict[int, tuple[int, int]]:
    """Cases to run again: (suspected night, the earliest it may be)."""
    known = levels[:, : night + 1]
    newest = look(known[:, -(MOST_BEFORE + NEWEST[-1]) :], DEFAULT)
    found = {
        int(case): (night + 1 - int(newest.nights[case]), night + 1 - NEWEST[-1])
        for case in np.flatnonzero(newest.suspect)
    }
    for case, step in steps:
        if step.worse:
            found[case] = step.at, step.first
    for case in range(len(known)):
        crept = drift.drift(known[case, -400:], None, DEFAULT) if case not in found else None
        if crept is not None and crept.real:
            found[case] = night + 1 - drift.LEVEL_NIGHTS, 1
    return found


def _session(
    setup: Setup,
    random: np.random.Generator,
    asked: dict[int, tuple[int, int]],
    since: dict[int, int],
    night: int,
    size: float,
) -> set[int]:
    """The cases that a fresh session of interleaved pairs bears out."""
    if not asked:
        return set()
    rows = []
    for case, (_, first) in asked.items():
        between = case in since and first <= since[case] <= night
        change = math.log1p(size) if between else 0.0
        # The machine has one state for the case while its pairs run; both processes share it.
        session = setup.session_sd * random.standard_normal()
        arms = session + setup.process_sd * random.standard_normal((2, PAIRS))
        logs = arms[0] - (arms[1] + change)
        rows.append(Evidence("tpot", tuple(float(v) for v in logs)))
    rulings = judge(rows)
    return {c for c, r in zip(asked, rulings, strict=True) if r.verdict == "regressed"}


def _by_night(steps: Sequence[Sequence[Step]]) -> dict[int, list[tuple[int, Step]]]:
    found: dict[int, list[tuple[int, Step]]] = {}
    for case, own in enumerate(steps):
        for step in own:
            found.setdefault(step.found, []).append((case, step))
    return found
