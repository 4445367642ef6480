"""How every gate answers: `passed` is `observed <= bound`, so that NaN never passes."""

from __future__ import annotations

import math

from harness.run import GateResult


def verdict(
    name: str, observed: float, bound: float, unit: str, detail: str = "", *, sound: bool = True
) -> GateResult:
    """A gate's result. Numbers that are not finite are kept as None and said in the detail.

    Args:
        sound: False fails the gate whatever the numbers are; `detail` then says why.
    """
    passed = sound and math.isfinite(bound) and observed <= bound
    notes = [detail] if detail else []
    notes += [
        f"{what} is {value}"
        for what, value in (("observed", observed), ("bound", bound))
        if not math.isfinite(value)
    ]
    return GateResult(
        name=name,
        passed=passed,
        observed=observed if math.isfinite(observed) else None,
        bound=bound if math.isfinite(bound) else None,
        unit=unit,
        detail="; ".join(notes),
    )


def failed(name: str, unit: str, detail: str) -> GateResult:
    """A gate that could not even compare: there is nothing observed, and it did not pass."""
    return GateResult(name=name, passed=False, observed=None, bound=None, unit=unit, detail=detail)
