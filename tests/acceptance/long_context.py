"""Whose time per token stays flat as the context grows: slopes, and equivalence within 5 %.

    python tests/acceptance/long_context.py [--sweep DB]

Sweeps `suites/long_context.yaml` on this processor, about half an hour, or reads the last sweep of
a database. A line is fitted through every stack's processes. Growth is the slope times the range of
lengths over the fitted time at the shortest: with a 95 % interval, and as a test of equivalence
(two one-sided t tests at 5 %, so a 90 % interval within +-5 %). Beside it stands the margin that
these processes would have shown with 80 % power, were there no growth: above 5 % a stack that is
not called flat may still be. Fails where `local` or `mamba` is not flat, or grows half as fast as
`mha`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.results import results
from harness.analysis.slopes import Slope, slopes
from harness.analysis.student import quantile
from harness.store import open_reader

MARGIN, LEVEL, MISS = 0.05, 0.05, 0.2
FLAT = ("local", "mamba")


@dataclass(frozen=True)
class Growth:
    """Of one stack's time per token over the whole range of lengths, as a share of the time."""

    stack: str
    growth: float
    low: float  # 95 %
    high: float
    error: float  # standard error
    dof: int

    @property
    def flat(self) -> bool:
        """Whether growth beyond the margin is ruled out, in both directions."""
        return abs(self.growth) + quantile(LEVEL, self.dof) * self.error <= MARGIN

    @property
    def seen(self) -> float:
        """The margin within which no growth would be shown in 80 % of such sweeps.

        Either side must be ruled out: an error of 20 % is shared between them.
        """
        return (quantile(LEVEL, self.dof) + quantile(MISS / 2, self.dof)) * self.error


def main() -> int:
    """Print a line a stack; 1 where a figure is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", metavar="DB", help="read its last sweep, measure nothing")
    given = parser.parse_args().sweep
    with tempfile.TemporaryDirectory() as folder:
        db = given or str(Path(folder) / "long.db")
        if given is None:
            command = [sys.executable, "-m", "harness", "sweep", "long_context", "--db", db]
            subprocess.run([*command, "--profile", "cpu"], check=True)
        with open_reader(db) as reader:
            found = slopes(results(reader.runs(reader.sweep().id)))
    if len(found) != 1:
        print(f"the last sweep of {db} holds {len(found)} groups of lengths; one is expected")
        return 1
    grown = {each.stack: each for slope in found[0].slopes if (each := growth(slope))}
    lengths = found[0].slopes[0].lengths
    print(f"growth of the time per token from {lengths[0]:,.0f} to {lengths[-1]:,.0f} tokens")
    for each in grown.values():
        told = "flat" if each.flat else "-"
        print(
            f"{each.stack:12}{each.growth:+8.1%}  [{each.low:+.1%}, {each.high:+.1%}]  {told:5}"
            f"within 5 %; shown with 80 % power: {each.seen:.1%}"
        )
    missed = [name for name in FLAT if name not in grown or not _still(grown[name], grown["mha"])]
    for name in missed:
        print(f"MISS  {name} is not flat within {MARGIN:.0%}, or grows half as fast as mha")
    return 1 if missed else 0


def growth(slope: Slope) -> Growth | None:
    """A slope as a share; None where it has no interval."""
    line, dof = slope.line, slope.n_values - 2
    if line.slope_low is None or line.slope_high is None or slope.level_ns <= 0:
        return None
    share = (slope.lengths[-1] - slope.lengths[0]) / slope.level_ns
    error = (line.slope_high - line.slope_low) / 2 / quantile(0.025, dof)
    return Growth(
        slope.stack,
        line.slope * share,
        line.slope_low * share,
        line.slope_high * share,
        error * share,
        dof,
    )


def _still(one: Growth, baseline: Growth) -> bool:
    return one.flat and one.growth < baseline.growth / 2


if __name__ == "__main__":
    sys.exit(main())
