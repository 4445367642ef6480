"""The benchmark of detectors, as one run: ours beside the peers, on made-up and real series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np

from harness.analysis.evaluate import grid, otava, ours, public
from harness.analysis.evaluate.confirmed import confirmed
from harness.analysis.evaluate.grid import SEED
from harness.analysis.evaluate.peers import PEERS
from harness.analysis.evaluate.public import agreement
from harness.analysis.evaluate.score import Alerts, Detector, Score, score
from harness.analysis.evaluate.trials import Half, Trial, of_half

OURS = "harness, nominated"
CONFIRMED = "harness, confirmed"
# Processes a night, for the table of a night's error.
PROCESSES = (1, 3, 5)


@dataclass(frozen=True)
class Row:
    """One detector on one collection of series."""

    name: str
    collection: str  # "grid", "rocksdb"
    whole: Score
    by_scenario: Mapping[str, Score]
    # By the step's size in standard deviations of a night: (lower bound, upper bound) to recall.
    power: Mapping[tuple[float, float], tuple[int, int]]  # hits, steps
    seconds: float


BANDS = ((0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (5.0, float("inf")))


def rows(
    half: Half = "both",
    peers: bool = True,
    otava_python: Path | None = None,
    collections: Sequence[str] = ("grid", "rocksdb"),
    seed: int = SEED,
    every: int = 1,
) -> Iterator[Row]:
    """Every detector on every collection, each row as soon as it is there; ours come first.

    Args:
        half: which series.
        peers: whether others run too; slow ones take minutes.
        otava_python: Python of an environment that has Otava; None leaves it out.
        collections: which.
        seed: of the made-up series and steps.
        every: take only every so-many-th series, for a quick look.
    """
    made = {"grid": grid.grid, "rocksdb": public.rocksdb}
    others: dict[str, Callable[[], Detector]] = dict(PEERS) if peers else {}
    if otava_python is not None:
        others |= otava.detectors(otava_python)
    for collection in collections:
        trials = of_half(made[collection](seed), half)[::every]
        start = perf_counter()
        alerts = ours.detect(trials)
        taken = perf_counter() - start
        yield _row(OURS, collection, trials, alerts, taken)
        yield _row(CONFIRMED, collection, trials, confirmed(trials, alerts, seed), taken)
        for name, make in others.items():
            detector = make()
            start = perf_counter()
            alerts = detector(trials)
            yield _row(name, collection, trials, alerts, perf_counter() - start)


def night_errors(half: Half, seed: int = SEED, every: int = 1) -> list[tuple[int, float, Row]]:
    """What several processes a night add: (processes, a night's error at 1 %, our row).

    Half of a night's variance is taken to be the session's, which all its processes share, so the
    night's error is sqrt((1 + 1 / n) / 2) of one process's: never that of independent points.
    """
    trials = [t for t in of_half(grid.grid(seed), half) if t.scenario == "plain"][::every]
    found = []
    for processes in PROCESSES:
        error = ((1 + 1 / processes) / 2) ** 0.5
        quieter = [_quieter(trial, error) for trial in trials]
        start = perf_counter()
        row = _row(OURS, "plain", quieter, ours.detect(quieter), perf_counter() - start)
        found.append((processes, error, row))
    return found


def turing(folder: Path) -> list[tuple[str, float]]:
    """Agreement with people's marks on the Turing Institute's series: ours, and never a change.

    A detector that never fires agrees with them too; that is why both stand there.
    """
    series = public.turing(folder)
    found = ours.offline([one.values for one in series])
    return [
        ("harness", agreement(series, found)),
        ("nothing ever changes", agreement(series, [()] * len(series))),
    ]


def _quieter(trial: Trial, error: float) -> Trial:
    """The same trial with its noise scaled."""
    logs = np.log(trial.values / 100)
    steps = np.zeros(len(logs))
    if trial.truth is not None:
        steps[trial.truth :] = np.log1p(trial.step)
    values = 100 * np.exp((logs - steps) * error + steps)
    return replace(trial, values=values, noise=trial.noise * error)


def _row(
    name: str, collection: str, trials: Sequence[Trial], alerts: Alerts, seconds: float
) -> Row:
    by_scenario = {}
    for scenario in dict.fromkeys(trial.scenario for trial in trials):
        places = [i for i, trial in enumerate(trials) if trial.scenario == scenario]
        by_scenario[scenario] = score([trials[i] for i in places], [alerts[i] for i in places])
    power = {}
    for low, high in BANDS:
        places = [
            i for i, t in enumerate(trials) if t.step and low <= t.step / t.noise + 1e-9 < high
        ]
        part = score([trials[i] for i in places], [alerts[i] for i in places])
        power[low, high] = part.hits, part.steps
    return Row(name, collection, score(trials, alerts), by_scenario, power, seconds)
