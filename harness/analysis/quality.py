"""Quality beside the seeds: what differs between stacks, and what another seed would have changed.

Members of a family (zoo/equal0-mha, zoo/equal1-mha, ...) are one training under several seeds. A
difference between architectures is a difference of trainings: it stands beside the spread that the
seeds alone give, and within it there is none. Stacks on one checkpoint need no seeds: their
divergence from its baseline is measured text by text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.ratios import family
from harness.analysis.results import Result
from harness.metrics import METRICS
from harness.suite.points import QualityPoint
from harness.zoo.seeds import Difference, difference

# The metric of each task that tells trainings apart.
OF_TASKS = ("bits_per_byte", "copying_accuracy", "cloze_accuracy", "recall_accuracy")


@dataclass(frozen=True)
class Trained:
    """One stack on the members of a family, which were trained alike but for the seed."""

    stack: str
    by_seed: tuple[tuple[int, float], ...]
    difference: Difference | None  # from the baseline's; None: it is the baseline, or there is none
    verdict: str  # better, worse, none, unknown; empty without a difference

    @property
    def seeds(self) -> int:
        """How many trainings there are."""
        return len(self.by_seed)

    @property
    def values(self) -> list[float]:
        """One number a seed."""
        return [value for _, value in self.by_seed]


@dataclass(frozen=True)
class Trainings:
    """The stacks of one family by one metric under equal conditions, the baseline first."""

    metric: str
    families: tuple[str, ...]  # "zoo/equal0", "zoo/equal1", ...
    conditions: tuple[str, ...]  # the point's title, backend, dtype
    stacks: tuple[Trained, ...]


def quality(results: Sequence[Result]) -> list[tuple[Result, QualityPoint]]:
    """Those that ask for quality and have numbers, with their points."""
    return [
        (result, result.case.workload)
        for result in results
        if isinstance(result.case.workload, QualityPoint) and result.metrics
    ]


def trainings(results: Sequence[Result], baseline: str) -> list[Trainings]:
    """Families whose stacks run on different trainings, by metric and conditions."""
    found = []
    for metric in OF_TASKS:
        for conditions, members in _by_conditions(results, metric).items():
            found += _compared(metric, conditions, members, baseline)
    return found


def _by_conditions(
    results: Sequence[Result], metric: str
) -> dict[tuple[str, ...], list[tuple[Result, str, int]]]:
    """Results of trained models with their training and seed, by what they were measured under."""
    grouped: dict[tuple[str, ...], list[tuple[Result, str, int]]] = {}
    for result, point in quality(results):
        said: Mapping[str, Any] = next(
            (t["quality"] for t in result.telemetry if "quality" in t), {}
        )
        training, seed = said.get("training"), said.get("seed")
        if result.value(metric) is None or training is None or seed is None:
            continue
        case = result.case
        key = (point.title, case.backend, case.dtype)
        grouped.setdefault(key, []).append((result, training, seed))
    return grouped


def _compared(
    metric: str,
    conditions: tuple[str, ...],
    members: Sequence[tuple[Result, str, int]],
    baseline: str,
) -> list[Trainings]:
    # A stack's seeds: the same stack, the same training.
    by_training: dict[tuple[str, str], list[tuple[Result, int]]] = {}
    for result, training, seed in members:
        by_training.setdefault((result.case.label, training), []).append((result, seed))
    # Stacks of one family: those whose members are called alike.
    by_family: dict[tuple[str, ...], dict[str, tuple[str, list[tuple[Result, int]]]]] = {}
    for (label, training), seeds in by_training.items():
        families = tuple(sorted({family(result.case) for result, _ in seeds}))
        by_family.setdefault(families, {})[label] = (training, seeds)
    found = []
    for families, stacks in by_family.items():
        if baseline not in stacks:
            continue
        base = stacks[baseline][1]
        # Of stacks on one training the plainest stands for it: no seed tells them apart.
        named = {baseline: stacks[baseline][0]}
        for label in sorted(stacks, key=len):
            if stacks[label][0] not in named.values():
                named[label] = stacks[label][0]
        labels = [baseline, *(label for label in stacks if label in named and label != baseline)]
        if len(labels) < 2:
            continue
        rows = tuple(_row(metric, label, stacks[label][1], base) for label in labels)
        found.append(Trainings(metric, families, conditions, rows))
    return found


def _row(
    metric: str,
    label: str,
    ours: Sequence[tuple[Result, int]],
    theirs: Sequence[tuple[Result, int]],
) -> Trained:
    mine, base = _numbers(metric, ours), _numbers(metric, theirs)
    if ours is theirs:
        return Trained(label, mine, None, "")
    told = difference([value for _, value in mine], [value for _, value in base])
    if told.spread is None:
        verdict = "unknown"
    elif not told.told:
        verdict = "none"
    else:
        lower = METRICS[metric].direction == "lower"
        verdict = "better" if (told.value < 0) == lower else "worse"
    return Trained(label, mine, told, verdict)


def _numbers(metric: str, of: Sequence[tuple[Result, int]]) -> tuple[tuple[int, float], ...]:
    numbers = [(seed, result.metrics[metric].value) for result, seed in of]
    return tuple(sorted((seed, value) for seed, value in numbers if value is not None))
