"""In which order runs are made: every round is a random permutation of the cases.

A round spreads each case over the whole sweep, so that a machine that warms up or slows down
does not become one technique's advantage.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Turn:
    """One planned run."""

    case: int  # place in the list of cases
    round: int  # from 0, as prompts are dealt out
    order_slot: int  # place in the sweep, from 0


def turns(cases: int, rounds: int, seed: int) -> list[Turn]:
    """Every (case, round) once, rounds one after another, each in an order of its own.

    The same seed gives the same order on every machine and Python version: the generator is
    seeded with text, which `random` hashes with SHA-512.
    """
    planned: list[Turn] = []
    for number in range(rounds):
        order = list(range(cases))
        Random(f"order {seed} {number}").shuffle(order)
        for case in order:
            planned.append(Turn(case, number, len(planned)))
    return planned
