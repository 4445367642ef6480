"""What an interleaved comparison finds on this machine: real process medians, planted work, A/A.

    python tests/acceptance/paired_power.py measure FILE [--pairs 100] [--clock cpu|wall]
    python tests/acceptance/paired_power.py tell FILE

`measure` runs a tiny case with and without 3 % of planted work, each run a process, in pairs whose
order turns round, and adds a line a pair to FILE; it goes on where it ended. `tell` resamples those
pairs: the share of comparisons that find the planted work against the number of rounds, as measured
(planting itself costs a little) and moved to exactly 3 %; the share that alarm where both sides are
the base; and the rounds that 95 % need, as found and as the comparison's own forecast. `cpu` reads
the process's CPU time: a thread's speed when nobody takes the core away; on a machine that others
use it is the honest clock for this question.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from harness import registry
from harness.analysis.judge import Evidence, judge
from harness.analysis.rounds import rounds_for
from harness.suite import Suite, cases, document
from harness.sweep.executor import LocalExecutor
from harness.sweep.paired import heads_first
from harness.worker.job import Job

PLUGINS = Path(__file__).with_name("plugins")
CLOCKS = {"cpu": "time:process_time_ns", "wall": None}
ROUNDS = (3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 30, 40, 50, 60, 80)
DRAWS = 1000
SIZE = 0.03  # of the work that is planted
SUITE = """
suite: planted
stacks: [mha, mha+planted]
model: tiny
workload: {kind: generate, batch: 1, prompt_tokens: 16, new_tokens: 32}
measure: {rounds: 1, min_samples: 100, max_seconds: 0.5, precision: 0.001}
gate: {numeric: false, exactness: false, plausibility: false}
"""


def measure(file: Path, pairs: int, clock: str) -> int:
    """Add pairs to the file until it holds that many."""
    registry.install([PLUGINS])
    suite = Suite.of(document.read(SUITE, "the planted suite"))
    base, head = (planned.case for planned in cases(suite, "cpu"))
    executor = LocalExecutor()
    done = len(_read(file)) if file.exists() else 0
    for number in range(done, pairs):
        medians: dict[str, float] = {}
        order = [(base, "base"), (head, "head")]
        for case, side in order[::-1] if heads_first(base, number, 1) else order:
            record = executor.submit(
                Job(
                    case=case,
                    measure=suite.measure,
                    gate=suite.gate,
                    seed=1,
                    round=number,
                    order_slot=number,
                    plugin_paths=(str(PLUGINS),),
                    clock=CLOCKS[clock],
                )
            )
            found = {m.name: m.value for m in record.metrics}
            if record.status != "ok" or not found.get("tpot"):
                print(f"pair {number}: {side} is {record.status}: {record.reason}", file=sys.stderr)
                return 1
            medians[side] = float(found["tpot"] or 0)
        with file.open("a") as opened:
            opened.write(json.dumps(medians) + "\n")
    return 0


def tell(file: Path) -> int:
    """Print the shares; 1 when an A/A alarms too often."""
    pairs = _read(file)
    planted = [math.log(p["base"] / p["head"]) for p in pairs]
    bases = [p["base"] for p in pairs]
    # Neighbours in time are a pair of equals; the sign of each is drawn anew below.
    equals = [math.log(a / b) for a, b in zip(bases[::2], bases[1::2], strict=False)]
    sd = stdev(planted)
    error = sd / math.sqrt(len(planted))
    print(f"{len(pairs)} pairs of processes, tpot {min(bases) / 1e3:.0f} us at best")
    print(f"a pair's logarithms scatter by {100 * sd:.2f} % (equals: {100 * stdev(equals):.2f} %)")
    print(f"planted work as measured: {100 * math.expm1(-mean(planted)):.2f} % "
          f"+- {200 * error:.2f} %")  # fmt: skip
    exactly = [v - mean(planted) - math.log1p(SIZE) for v in planted]
    print(
        f"\n{'rounds':>8}{'found':>9}{'at 3 %':>9}{'of 200':>9}{'A/A worse':>11}{'A/A better':>12}"
    )
    source = random.Random(7)
    needed, alarms = None, 0.0
    for n in (n for n in ROUNDS if n < len(planted)):
        found = _share(planted, n, source, 1)
        alone = _share(exactly, n, source, 1)
        crowd = _share(exactly, n, source, 200)
        signed = [source.choice((-1, 1)) * v for v in equals]
        worse, better = (
            _share([s * v for v in signed], n, source, 1) if n < len(equals) else math.nan
            for s in (1, -1)
        )
        alarms = max(alarms, 0.0 if math.isnan(worse) else worse)
        print(f"{n:>8}{found:>9.3f}{alone:>9.3f}{crowd:>9.3f}{worse:>11.3f}{better:>12.3f}")
        if needed is None and alone >= 0.95:
            needed = n
    forecast = rounds_for(SIZE, sd, 0.0, 1)
    print(f"\nrounds that find 3 % in 95 % of comparisons: {needed or 'more than these'}; "
          f"forecast from the noise: {forecast}")  # fmt: skip
    return 0 if alarms <= 0.02 else 1


def _share(logs: Sequence[float], n: int, source: random.Random, family: int) -> float:
    """How often n of the pairs, drawn without replacement, are called a regression.

    With a family of 200 the other rows are quiet ones, whose p-values are 1.
    """
    quiet = [Evidence(f"other {i}", (0.0, 1e-9, -1e-9)) for i in range(family - 1)]
    found = 0
    draws = DRAWS if family == 1 else DRAWS // 10
    for _ in range(draws):
        row = Evidence("tpot", tuple(source.sample(list(logs), n)))
        found += judge([row, *quiet])[0].verdict == "regressed"
    return found / draws


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def main() -> int:
    """Measure or tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "tell"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    asked = parser.parse_args()
    if asked.what == "tell":
        return tell(asked.file)
    return measure(asked.file, asked.pairs, asked.clock)


if __name__ == "__main__":
    sys.exit(main())
