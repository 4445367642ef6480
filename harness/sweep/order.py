"""In which order runs are made: rounds of points in random order, a point's stacks side by side.

Rounds spread each case over the whole sweep, so that a machine that warms up or slows down does not
become one technique's advantage. Within a round the stacks of one point run one after the other, in
random order: what is divided by each other was measured within minutes, and a drift cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from harness.suite.case import Case


@dataclass(frozen=True)
class Turn:
    """One planned run."""

    case: int  # place in the list of cases
    round: int  # from 0, as prompts are dealt out
    order_slot: int  # place in the sweep, from 0


def point(case: Case) -> str:
    """Everything of a case but its stack and model: cases with equal points are compared."""
    return case.model_dump_json(exclude={"stack", "model", "checkpoint_hash"})


def turns(points: Sequence[str], rounds: int, seed: int) -> list[Turn]:
    """Every (case, round) once, rounds one after another, each in an order of its own.

    Args:
        points: the point of each case.
        rounds: processes a case.
        seed: of the order.

    The same seed gives the same order on every machine and Python version: the generator is
    seeded with text, which `random` hashes with SHA-512.
    """
    together: dict[str, list[int]] = {}
    for case, shared in enumerate(points):
        together.setdefault(shared, []).append(case)
    planned: list[Turn] = []
    for number in range(rounds):
        random = Random(f"order {seed} {number}")
        order = list(together.values())
        random.shuffle(order)
        for cases in order:
            stacks = list(cases)
            random.shuffle(stacks)
            planned += [Turn(case, number, len(planned) + i) for i, case in enumerate(stacks)]
    return planned
