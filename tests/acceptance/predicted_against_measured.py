"""Predicted against measured on this processor: every technique, after `harness calibrate`.

    python tests/acceptance/predicted_against_measured.py [--rounds 2] [--db FILE]

Calibrates into a fresh database (products, attention, what lies between them and an engine that
computes nothing: no technique is timed), sweeps every technique over a small grid, and holds the
predicted time to the first token and per token to the measured ones. Prints the error of every
case, the worst with what was noted about their runs, and fails where the median is 20 % or more.
Takes minutes, and means something on a quiet machine only: what changes the machine's speed between
calibration and sweep counts as the model's error.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness import registry, stack
from harness.analysis.results import Result, results
from harness.cli.sweep import known_hardware
from harness.hardware.detection import detect
from harness.predict.calibration import target
from harness.predict.rows import record
from harness.store import open_reader
from harness.suite import cases, load

TARGET = 0.20
METRICS = ("ttft", "tpot")
WORST = 8

# One model whose weights leave the caches, one that lies in them; batch and length change which
# work dominates. Without a cache the larger points would take minutes each.
SUITES = """\
suite: predicted-large
stacks: [{stacks}]
model: stories-42m
workload: {{kind: generate, batch: [1, 8], prompt_tokens: [32, 192], new_tokens: 12}}
measure: {{rounds: {rounds}, min_samples: 5, max_seconds: 4, precision: 0.1}}
gate: {{numeric: false, exactness: false}}
exclude:
  - {{batch: 8, prompt_tokens: 192}}
---
suite: predicted-small
stacks: [{stacks}]
model: tiny
workload: {{kind: generate, batch: [1, 16], prompt_tokens: 64, new_tokens: 16}}
measure: {{rounds: {rounds}, min_samples: 5, max_seconds: 2, precision: 0.1}}
gate: {{numeric: false, exactness: false}}
"""


@dataclass(frozen=True)
class Pair:
    """One time of one case."""

    result: Result
    metric: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative; positive where the prediction is too long."""
        return self.predicted / self.measured - 1


def main() -> int:
    """Print the figures; 1 when the target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--db", type=Path, help="keep the database here")
    parser.add_argument("--only", default="*", help="stacks to measure, as harness sweep --only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = arguments.db or Path(folder) / "predicted.db"
        found, missing = measured(Path(folder), db, arguments.rounds, arguments.only)
    show(found, missing)
    return 0 if statistics.median(abs(pair.error) for pair in found) < TARGET else 1


def measured(
    folder: Path, db: Path, rounds: int, only: str
) -> tuple[list[Pair], list[tuple[str, str]]]:
    """Calibrate, sweep, predict: every time that both have, and (case, reason) of the others."""
    harness("calibrate", "--profile", "cpu", "--db", str(db))
    here = target(known_hardware(detect("cpu"), str(db)), 1)
    found: list[Pair] = []
    missing: list[tuple[str, str]] = []
    # A stack of baselines alone is the model as it is, which is mha's here: one for all of them.
    stacks = [name for name in registry.names() if name not in stack.BASELINES.values()]
    text = SUITES.format(stacks=", ".join(stacks), rounds=rounds)
    for number, suite in enumerate(text.split("---\n")):
        file = folder / f"{number}.yaml"
        file.write_text(suite)
        harness("sweep", str(file), "--db", str(db), "--only", only)
        with open_reader(str(db)) as reader:
            made = {r.case.hash: r for r in results(reader.runs(reader.sweeps()[0].id))}
        for slot, planned in enumerate(cases(load(file), "cpu")):
            if (result := made.get(planned.case.hash)) is None:
                continue
            guess = record(planned, here, slot, datetime.now(UTC))
            if result.status != "ok" or guess.status != "predicted":
                missing.append((planned.case.title, result.reason or guess.reason or ""))
                continue
            found += pairs(result, {metric.name: metric.value for metric in guess.metrics})
    return found, missing


def pairs(result: Result, guess: dict[str, float | None]) -> Iterator[Pair]:
    """What was measured of a case, beside what was predicted."""
    for metric in METRICS:
        predicted, value = guess.get(metric), result.value(metric)
        if predicted is not None and value is not None:
            yield Pair(result, metric, predicted, value)


def harness(*arguments: str) -> None:
    """Run the command; what it prints is shown where it fails."""
    command = [sys.executable, "-m", "harness", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout if arguments[0] == "calibrate" else "", end="")
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def show(found: Sequence[Pair], missing: Sequence[tuple[str, str]]) -> None:
    """All errors, then by technique, then the worst."""
    print(f"\n{'case':44} {'metric':6} {'measured':>11} {'predicted':>11} {'error':>7}")
    for pair in found:
        times = f"{pair.measured / 1e6:8.2f} ms {pair.predicted / 1e6:8.2f} ms"
        name = f"{pair.result.case.model} {pair.result.case.title}"
        print(f"{name:44} {pair.metric:6} {times} {pair.error:+7.0%}")
    by_stack = defaultdict(list)
    for pair in found:
        by_stack[pair.result.case.label].append(abs(pair.error))
    print("\nmedian |error| by technique")
    for label, errors in by_stack.items():
        print(f"  {label:20} {statistics.median(errors):6.1%} of {len(errors)} times")
    print("\nworst cases")
    for pair in sorted(found, key=lambda pair: -abs(pair.error))[:WORST]:
        name = f"{pair.result.case.model} {pair.result.case.title}"
        print(f"  {name} {pair.metric} {pair.error:+.0%}: {noted(pair.result)}")
    for name, reason in missing:
        print(f"  {name}: no pair: {reason}")
    errors = sorted(abs(pair.error) for pair in found)
    ninety = errors[int(0.9 * (len(errors) - 1))]
    print(
        f"\n{len(errors)} times of {len(by_stack)} techniques: median error "
        f"{statistics.median(errors):.1%} (target below {TARGET:.0%}), 90th percentile {ninety:.1%}"
    )


def noted(result: Result) -> str:
    """What the runs say about themselves: how far apart they lie, and whether they had to wait."""
    estimate = result.metrics["tpot"]
    spread = [value for _, value in estimate.by_round]
    apart = max(spread) / min(spread) - 1 if spread else 0.0
    shares = [each["timed"]["cpu_share"] for each in result.telemetry if "timed" in each]
    return f"rounds {apart:.0%} apart, computed for {min(shares):.0%} of the time"


if __name__ == "__main__":
    sys.exit(main())
