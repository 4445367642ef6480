"""Suites as asv's benchmarks: one sweep each, and a tracked number for every metric and case.

HARNESS_ASV_SUITES names the suites, by default `quick`. asv makes the cache once for a commit and
then asks for each number by itself; the sweep in it is a whole `harness sweep`, with its gates, its
processes a case and its lock on the machine. A number that a sweep does not give is NaN for asv.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.analysis.results import results
from harness.errors import HarnessError
from harness.hardware.detection import detect
from harness.interop.asv.values import label, unit, value
from harness.metrics import METRICS
from harness.store import open_reader
from harness.suite import Profile, cases, load

# Suite, metric, label of a case: the number as asv shall see it.
Numbers = dict[str, dict[str, dict[str, float]]]

TRACKED = ("tpot", "ttft", "throughput", "kernel_time", "peak_bytes", "state_bytes")
HOURS_S = 4 * 3600.0
SUITES = [name for name in os.environ.get("HARNESS_ASV_SUITES", "quick").split(",") if name]


def setup_cache() -> Numbers:
    """Sweep every suite and read what came out. asv runs this once a commit, in a new folder."""
    found: Numbers = {}
    for suite in SUITES:
        db = Path(f"{Path(suite).stem}.db").absolute()
        command = (sys.executable, "-P", "-m", "harness", "sweep", suite, "--db", str(db))
        done = subprocess.run(command, check=False)
        # 1: a case failed its gates; the others count.
        if done.returncode not in (0, 1):
            raise RuntimeError(f"harness sweep {suite} ended with {done.returncode}")
        found[suite] = _numbers(str(db))
    return found


# asv reads this attribute off the function, and functions declare none.
setup_cache.timeout = HOURS_S  # type: ignore[attr-defined]


def _numbers(db: str) -> dict[str, dict[str, float]]:
    with open_reader(db) as reader:
        measured = results(reader.runs(reader.sweep("last").id))
    numbers: dict[str, dict[str, float]] = {metric: {} for metric in TRACKED}
    for result in measured:
        for metric in TRACKED:
            number = result.value(metric)
            exported = None if number is None else value(METRICS[metric], number)
            if exported is not None:
                numbers[metric][label(result.case)] = exported
    return numbers


def _benchmark(
    name: str, suite: str, metric: str, labels: list[str]
) -> Callable[[Numbers, str], float]:
    def track(numbers: Numbers, case: str) -> float:
        return numbers[suite][metric].get(case, math.nan)

    about: Any = track
    about.__name__ = name  # what asv calls it, whatever name it stands under in this module
    about.params = [labels]
    about.param_names = ["case"]
    about.unit = unit(METRICS[metric])
    about.version = "1"  # else asv takes the source text, the same for all of them
    return track


def _generate() -> dict[str, Callable[[Numbers, str], float]]:
    """A benchmark a suite and metric. A suite that cannot be planned here has none."""
    kind: Profile = "cuda" if detect().kind == "cuda" else "cpu"
    made = {}
    for suite in SUITES:
        try:
            planned = cases(load(suite), kind)
        except HarnessError as error:
            print(f"harness: {error}", file=sys.stderr)
            continue
        labels = [label(entry.case) for entry in planned if entry.runnable]
        kernels = all(entry.case.stack is None for entry in planned)
        for metric in TRACKED:
            if (metric == "kernel_time") == kernels:
                name = f"track_{Path(suite).stem.replace('-', '_')}_{metric}"
                made[name] = _benchmark(name, suite, metric, labels)
    return made


globals().update(_generate())
