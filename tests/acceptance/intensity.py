"""Lecture section 2 as a measurement: batch raises a linear layer's rate, not decode attention's.

    python tests/acceptance/intensity.py [--sweep DB]

Sweeps `suites/intensity.yaml` on this processor, a few minutes, or reads the last sweep of a
database. Prints each kernel's achieved rate against that at B = 1, beside the intensity that its
cost function predicts and the lecture's B and ST/(S+T), which are for numbers of 16 bits. Fails
unless, within the one sweep, the linear layer's rate grows several times, attention's hardly, and
the predicted intensities are the lecture's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analysis.results import Result, results
from harness.shape import DTYPE_BYTES
from harness.store import open_reader
from harness.suite.points import KernelPoint

# How much the linear layer's rate must grow at least from one row to the most, attention's at most
# anywhere, and how near the predicted intensities must come to the lecture's limits.
GROWTH, STILL, NEAR = 5.0, 2.0, 0.1


@dataclass(frozen=True)
class Line:
    """One kernel at one batch. Intensities in FLOPs a byte."""

    kernel: str
    batch: int
    rate: float  # FLOPs a second
    predicted: float
    lecture: float


def main() -> int:
    """Print the figures; 1 when one of them is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", metavar="DB", help="read its last sweep, measure nothing")
    given = parser.parse_args().sweep
    with tempfile.TemporaryDirectory() as folder:
        db = given or str(Path(folder) / "intensity.db")
        if given is None:
            command = [sys.executable, "-m", "harness", "sweep", "intensity", "--db", db]
            subprocess.run([*command, "--profile", "cpu"], check=True)
        with open_reader(db) as reader:
            found = results(reader.runs(reader.sweep().id))
    lines = [line(result) for result in found if result.status == "ok"]
    missing = [result.case.title for result in found if result.status != "ok"]
    growth = {
        kernel: show(kernel, sorted((x for x in lines if x.kernel == kernel), key=batch_of))
        for kernel in ("linear", "decode_attention")
    }
    apart = max(abs(each.predicted / each.lecture - 1) for each in lines)
    ratio = growth["linear"][1] / growth["decode_attention"][1]
    checks = {
        f"cases without a number: {', '.join(missing) or 'none'}": not missing,
        f"linear: most rows over one row {growth['linear'][1]:.2f}x, at least {GROWTH:g}x":
            growth["linear"][1] >= GROWTH,
        f"decode attention: best over one row {growth['decode_attention'][0]:.2f}x, at most "
        f"{STILL:g}x": growth["decode_attention"][0] <= STILL,
        f"the one's growth over the other's {ratio:.2f}x, at least {GROWTH / STILL:g}x":
            ratio >= GROWTH / STILL,
        f"predicted intensities within {apart:.1%} of the lecture's, at most {NEAR:.0%}":
            apart <= NEAR,
    }  # fmt: skip
    print()
    for told, held in checks.items():
        print(f"{'ok  ' if held else 'MISS'}  {told}")
    return 0 if all(checks.values()) else 1


def line(result: Result) -> Line:
    """What was measured of a kernel at one batch, and what the lecture says of it."""
    case = result.case
    assert isinstance(case.workload, KernelPoint)
    sizes = case.workload.sizes
    rate, predicted = result.value("achieved_flops"), result.value("intensity")
    assert rate is not None
    assert predicted is not None
    # The lecture counts numbers of two bytes.
    numbers = 2 / DTYPE_BYTES[case.dtype]
    if case.workload.kernel == "linear":
        lecture = float(sizes["B"])
    else:
        S, T = sizes["S"], sizes["N"] // sizes["K"]
        lecture = S * T / (S + T)
    return Line(case.workload.kernel, sizes["B"], rate, predicted, lecture * numbers)


def batch_of(each: Line) -> int:
    """Where a line stands."""
    return each.batch


def show(kernel: str, lines: Sequence[Line]) -> tuple[float, float]:
    """Print a kernel's lines; the highest and the last rate over the first."""
    print(f"\n{kernel:18} {'FLOP/s':>12} {'of B=1':>8} {'FLOP/byte':>10} {'lecture':>8}")
    for each in lines:
        print(
            f"  B = {each.batch:<12} {each.rate / 1e9:8.2f} G/s {each.rate / lines[0].rate:7.2f}x "
            f"{each.predicted:10.2f} {each.lecture:8.2f}"
        )
    return max(each.rate for each in lines) / lines[0].rate, lines[-1].rate / lines[0].rate


if __name__ == "__main__":
    sys.exit(main())
