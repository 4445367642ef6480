"""What disturbed a measurement: in words, and whether another try may come out better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Below this share of readings a slowdown is one at the edges, when the device woke up or stopped.
SLOWED_SHARE = 0.05
# Of the time: the precision that medians aim at.
THROTTLED_SHARE = 0.01
STOLEN_SHARE = 0.01
# A clock that fell by so much over a measurement makes its later samples another device's.
CLOCK_FALL = 0.15
# What a device does at its own limit it will do again: no reason to try once more.
_OWN_LIMIT = "power limit"


@dataclass(frozen=True)
class Flag:
    """One thing that disturbed a run. `passing`: it may be gone after a pause."""

    says: str
    passing: bool


def flags(told: Mapping[str, Any]) -> list[Flag]:
    """What disturbed a measurement, from what `sensed.told` stored of it."""
    return [*_gpu(told), *_cpu(told)]


def passing(found: list[Flag]) -> str | None:
    """Why a run is worth another try, None where it is not."""
    reasons = [flag.says for flag in found if flag.passing]
    return "; ".join(reasons) or None


def _gpu(told: Mapping[str, Any]) -> Iterator[Flag]:
    for name, share in told.get("slowdowns", {}).items():
        if share >= SLOWED_SHARE:
            yield Flag(
                f"the GPU was slowed down by its {name} in {100 * share:.0f} % of readings",
                passing=name != _OWN_LIMIT,
            )
    throttled, seconds = told.get("throttled_s"), told.get("seconds") or 0.0
    if throttled and throttled > THROTTLED_SHARE * seconds:
        yield Flag(
            f"the GPU was throttled by heat for {throttled:.2g} of {seconds:.2g} s", passing=True
        )
    others = told.get("others")
    if others:
        yield Flag(f"{others} other process(es) computed on the GPU", passing=True)
    errors = told.get("ecc_errors")
    if errors:
        yield Flag(f"the GPU's memory had {errors:.0f} uncorrected error(s)", passing=False)
    yield from _fallen("sm_mhz", told)


def _cpu(told: Mapping[str, Any]) -> Iterator[Flag]:
    stolen = told.get("stolen_share")
    if stolen is not None and stolen > STOLEN_SHARE:
        yield Flag(
            f"{100 * stolen:.1f} % of processor time went to other virtual machines", passing=True
        )
    yield from _fallen("mhz", told)


def _fallen(name: str, told: Mapping[str, Any]) -> Iterator[Flag]:
    clock = told.get(name)
    if clock and clock[0] < (1 - CLOCK_FALL) * clock[2]:
        yield Flag(f"the clock moved between {clock[0]:.0f} and {clock[2]:.0f} MHz", passing=False)
