"""Predicted against measured on this processor: every technique, after `harness calibrate`.

    python tests/acceptance/predicted_against_measured.py [--only 'mla*']

Calibrates into a fresh database (products, attention, what lies between them and an engine that
computes nothing: no technique is timed), sweeps every technique over a small grid, and holds the
predicted times to the first token and per token to those measured. Prints the error of every time,
medians by technique and the worst with what binds them and what their runs say of themselves.
Fails where the median is 20 % or more, or where fewer than 90 % lie within the bounds that are
stated for 95 %. Takes about five minutes.

What was chosen looking at which data: no constant is fitted on a technique. But the form of the
model was mended looking at these errors of all techniques at once. They were 28 % in the median,
nearly the same of each, because the calibration timed a head's weights alone, which a cache then
held, many rows on few weights, attention's bare product, small operations of one size and a host
whose code is always cached; it now times all of them as a model meets them. The spread that is
stated (`stacks` in efficiency.yaml) is from these errors themselves. What is left is named among
the worst: short prompts of a model that computes nearly nothing, where most of the time is the
host's, which is fitted as a launch, a step, prompts and a sequence, and differs by architecture.

A machine that is shared lets a run wait for its core, and is not equally fast all the time, by a
factor of 1.5 where two cores are one core's threads. So the processor's time in a run is held to
the prediction, and a pulse of fixed work, timed at the calibration and around each run, tells how
fast the machine was. Plain errors, of wall time without regard to speed, stand beside these.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import torch

from harness import registry
from harness.cli.sweep import known_hardware
from harness.hardware.detection import detect
from harness.hardware.identity import HardwareRow
from harness.predict.calibration import target
from harness.predict.rows import record
from harness.predict.target import Target
from harness.run import RunRecord
from harness.suite import Suite, cases, document
from harness.suite.case import Case
from harness.sweep import Order, run_sweep
from harness.technique import BASELINES

GOAL, COVERED = 0.20, 0.90
PHASES = {"ttft": "prefill", "tpot": "decode"}
WORST = 8
CALIBRATIONS, STEADY = 5, 1.1  # at most, until the pulse moved by less than that

# A model whose weights leave the caches, and one that lies in them; batch and length change which
# work dominates. Without a cache the larger points would take minutes each.
SUITES = """\
suite: predicted-large
stacks: [STACKS]
model: stories-42m
workload: {kind: generate, batch: [1, 8], prompt_tokens: [32, 192], new_tokens: 12}
measure: {rounds: 1, min_samples: 5, max_seconds: 3, precision: 0.1}
gate: {numeric: false, exactness: false}
exclude:
  - {batch: 8, prompt_tokens: 192}
---
suite: predicted-small
stacks: [STACKS]
model: tiny
workload: {kind: generate, batch: [1, 16], prompt_tokens: 64, new_tokens: 16}
measure: {rounds: 1, min_samples: 5, max_seconds: 2, precision: 0.1}
gate: {numeric: false, exactness: false}
"""


@dataclass(frozen=True)
class Made:
    """A run, and how long the pulse took around it."""

    case: Case
    run: RunRecord
    pulse_ns: float


@dataclass(frozen=True)
class Pair:
    """One time of one run, ns. `slower`: how many times slower the machine was than calibrated.

    `binds`: what is predicted to take longest. `factor`: within which 95 % are said to lie.
    """

    case: Case
    run: RunRecord
    metric: str
    predicted: float
    measured: float
    slower: float
    binds: str
    factor: float

    @property
    def plain(self) -> float:
        """Relative error; positive where the prediction is too long."""
        return self.predicted / self.measured - 1

    @property
    def share(self) -> float:
        """Of its time in which the run computed."""
        return min(1.0, float(self.run.telemetry["timed"]["cpu_share"]))

    @property
    def error(self) -> float:
        """The same of the processor's time, at equal speed."""
        return self.predicted * self.slower / (self.measured * self.share) - 1

    @property
    def within(self) -> bool:
        """Whether it lies within the factor that is stated."""
        return abs(math.log1p(self.error)) <= math.log(self.factor)

    @property
    def name(self) -> str:
        """Which time of which case."""
        return f"{self.case.model} {self.case.title} {self.metric}"


@dataclass
class Pulses:
    """Progress of a sweep that times a pulse before and after each run."""

    made: list[Made] = field(default_factory=list)
    _before: float = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None

    def start(self, _case: Case, _number: int) -> None:
        """Before a run."""
        self._before = pulse_ns()

    def finish(self, case: Case, run: RunRecord, _took_s: float, _left_s: float) -> None:
        """After it."""
        self.made.append(Made(case, run, statistics.geometric_mean([self._before, pulse_ns()])))
        print(".", end="", flush=True)


def main() -> int:
    """Print the figures; 1 when the goal is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="*", help="stacks or cases to keep, a glob")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder) / "predicted.db")
        calibrated = calibrate(db)
        hardware = known_hardware(detect("cpu"), db)
        here = target(hardware, 1)
        found: list[Pair] = []
        missing: dict[str, str] = {}
        # A stack of baselines alone is the model as it is, which is mha's: one for all of them.
        names = [name for name in registry.names() if name not in BASELINES.values()]
        for text in SUITES.replace("STACKS", ", ".join(names)).split("---\n"):
            suite = Suite.of(document.read(text, "predicted"))
            pairs, without = swept(suite, only, hardware, here, calibrated, folder)
            found += pairs
            missing |= without
    show(found, missing)
    covered = sum(pair.within for pair in found) / len(found)
    print(f"{covered:.0%} lie within the bounds stated for 95 % (at least {COVERED:.0%})")
    return 0 if median(pair.error for pair in found) < GOAL and covered >= COVERED else 1


def calibrate(db: str) -> float:
    """Calibrate until the machine is equally fast before and after; the pulse's time."""
    command = [sys.executable, "-m", "harness", "calibrate", "--profile", "cpu", "--db", db]
    for _ in range(CALIBRATIONS):
        before = pulse_ns()
        subprocess.run(command, check=True)
        after = pulse_ns()
        if 1 / STEADY < after / before < STEADY:
            break
        print(f"the machine's speed moved by {before / after:.2f} meanwhile\n")
    return statistics.geometric_mean([before, after])


def swept(
    suite: Suite, only: str, hardware: HardwareRow, here: Target, calibrated: float, folder: str
) -> tuple[list[Pair], dict[str, str]]:
    """Every time that was measured and predicted, and why the others were not."""
    planned = cases(suite, "cpu", [only])
    pulses = Pulses()
    run_sweep(
        Order(suite, "cpu", tuple(planned), ("sweep", "predicted"), seed=1),
        hardware,
        url=str(Path(folder) / "predicted.db"),
        progress=pulses,
        lock=Path(folder) / "lock",
    )
    made = {each.case.hash: each for each in pulses.made}
    found: list[Pair] = []
    missing: dict[str, str] = {}
    for slot, entry in enumerate(planned):
        guess = record(entry, here, slot, datetime.now(UTC))
        run = made.get(entry.case.hash)
        reason = entry.unsupported or guess.reason or (run.run.reason if run else None)
        if run is None or run.run.status != "ok" or guess.status != "predicted":
            missing[f"{entry.case.model} {entry.case.title}"] = reason or "not run"
            continue
        found += pairs_of(run, guess, calibrated)
    return found, missing


def pairs_of(made: Made, guess: RunRecord, calibrated: float) -> Iterator[Pair]:
    """What was measured of a case, beside what was predicted."""
    measured = {metric.name: metric.value for metric in made.run.metrics}
    predicted = {metric.name: metric for metric in guess.metrics}
    slower = made.pulse_ns / calibrated
    for name, phase in PHASES.items():
        one, other = predicted[name], measured.get(name)
        if one.value is not None and one.ci_high is not None and other is not None:
            factor, binds = one.ci_high / one.value, guess.telemetry["binds"][phase]
            yield Pair(made.case, made.run, name, one.value, other, slower, binds, factor)


def pulse_ns() -> float:
    """Processor time of a fixed piece of work: a product, a sum from memory, small operations."""
    square, large, small = torch.ones(256, 256), torch.ones(2 * 1024**2), torch.ones(64)
    taken = []
    for _ in range(60):
        start = time.process_time_ns()
        torch.mm(square, square)
        large.sum()
        for _ in range(40):
            torch.add(small, 1.0)
        taken.append(time.process_time_ns() - start)
    return statistics.median(taken)


def median(errors: Iterator[float]) -> float:
    """Of absolute errors."""
    return statistics.median(map(abs, errors))


def show(found: Sequence[Pair], missing: dict[str, str]) -> None:
    """All errors, then by technique, then the worst."""
    columns = "".join(f"{name:>7}" for name in ("plain", "speed", "share", "error"))
    print(f"\n\n{'':46} {'measured':>11} {'predicted':>11}{columns}")
    for pair in found:
        times = f"{pair.measured / 1e6:8.2f} ms {pair.predicted / 1e6:8.2f} ms"
        speed = f"{1 / pair.slower:6.2f} {pair.share:6.0%}"
        print(f"{pair.name:46} {times} {pair.plain:+6.0%} {speed} {pair.error:+6.0%}")
    by_stack: dict[str, list[Pair]] = defaultdict(list)
    for pair in found:
        by_stack[pair.case.label].append(pair)
    print("\nmedian error by stack")
    for label, pairs in by_stack.items():
        print(f"  {label:20} {median(pair.error for pair in pairs):6.1%} of {len(pairs)} times")
    print("\nworst")
    for pair in sorted(found, key=lambda pair: -abs(pair.error))[:WORST]:
        flags = "; ".join(pair.run.telemetry.get("flags", [])) or "no flag"
        print(f"  {pair.name} {pair.error:+.0%}: bound by {pair.binds}; {flags}")
    for name, reason in missing.items():
        print(f"  {name}: no pair: {reason}")
    errors = sorted(abs(pair.error) for pair in found)
    ninety = errors[int(0.9 * (len(errors) - 1))]
    print(
        f"\n{len(errors)} times of {len(by_stack)} stacks: median error "
        f"{statistics.median(errors):.1%} (goal below {GOAL:.0%}), 90th percentile {ninety:.1%}; "
        f"plain {median(pair.plain for pair in found):.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
