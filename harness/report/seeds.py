"""Differences between trainings, beside what another seed would have changed: tables, sentences."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from harness.analysis.quality import Trained, Trainings, trainings
from harness.analysis.results import Result
from harness.report.findings import Grid

_WORDS = {
    "bits_per_byte": "bits a byte",
    "copying_accuracy": "copying",
    "cloze_accuracy": "cloze",
    "recall_accuracy": "recall",
}


def seed_grids(results: Sequence[Result], baseline: str) -> list[Grid]:
    """A table a family of several seeds, and one of all families of one."""
    every = trainings(results, baseline)
    found = [_seed_grid(each, baseline) for each in every if each.stacks[0].seeds > 1]
    return found + _alone(every, baseline)


def seed_sentences(results: Sequence[Result], baseline: str) -> list[str]:
    """Differences between trainings in words, with what the seeds alone give."""
    every = trainings(results, baseline)
    told = [
        _sentence(each, stack, baseline)
        for each in every
        for stack in each.stacks
        if stack.difference is not None and stack.verdict != "unknown"
    ]
    alone = dict.fromkeys(name for e in every if e.stacks[0].seeds == 1 for name in e.families)
    if alone:
        told.append(
            f"Every architecture of {', '.join(alone)} was trained with one seed: nobody knows "
            "which of their differences another seed would leave."
        )
    return told


def _seed_grid(told: Trainings, baseline: str) -> Grid:
    return Grid(
        title=f"Seeds: {_WORDS[told.metric]} of {', '.join(told.families)}, "
        f"{', '.join(told.conditions)}",
        header=("stack", "mean", f"less {baseline}'s", "difference", "seed spread", "by seed"),
        rows=tuple(_seed_row(stack) for stack in told.stacks),
        note="+-: what the seeds alone give, 95 % of Student's t, and a difference within it is "
        "none; seed spread: standard deviation over seeds",
    )


def _seed_row(stack: Trained) -> tuple[str, ...]:
    values = stack.values
    spread = f"{statistics.stdev(values):.4f}"
    by_seed = ", ".join(f"{value:.4f}" for value in values)
    against = ("baseline", "") if stack.difference is None else (_difference(stack), stack.verdict)
    return (stack.stack, f"{statistics.mean(values):.4f}", *against, spread, by_seed)


def _alone(every: Sequence[Trainings], baseline: str) -> list[Grid]:
    """Families of one seed, in one table."""
    rows = [
        (
            f"{', '.join(each.families)}, {stack.stack}",
            _WORDS[each.metric],
            f"{stack.values[0]:.4f}",
            _difference(stack),
            stack.verdict,
        )
        for each in every
        for stack in each.stacks
        if each.stacks[0].seeds == 1 and stack.difference is not None
    ]
    if not rows:
        return []
    return [
        Grid(
            title="Architectures that were trained with one seed",
            header=("family, stack", "of", "value", f"less {baseline}'s", "difference"),
            rows=tuple(rows),
            note="one seed gives no spread: nobody knows what another would leave of a difference",
        )
    ]


def _difference(stack: Trained) -> str:
    assert stack.difference is not None
    told = f"{stack.difference.value:+.4f}"
    spread = stack.difference.spread
    return told if spread is None else f"{told} +-{spread:.4f}"


def _sentence(told: Trainings, stack: Trained, baseline: str) -> str:
    what = f"{_WORDS[told.metric]} of {stack.stack} less {baseline}'s on {', '.join(told.families)}"
    head = f"{what[0].upper()}{what[1:]}: {_difference(stack)}"
    if stack.verdict == "none":
        return f"{head}; within the spread of the seeds, so none."
    return f"{head}; beyond the spread of {stack.seeds} seeds: {stack.verdict}."
