"""An enlarged model computes its source's distribution: the divergence that its build measured."""

from __future__ import annotations

from harness.gates.verdict import verdict
from harness.model.inflate import MOST_DIVERGENCE, Divergence
from harness.run import GateResult

NAME = "inflation"


def check_inflation(source: str, found: Divergence) -> GateResult:
    """Hold an enlarged model to the one inside it, named `source`."""
    return verdict(
        NAME,
        found.mean,
        MOST_DIVERGENCE,
        "nat",
        f"KL from {source}, {found.tokens} random ids, worst {found.worst:.2g}",
    )
