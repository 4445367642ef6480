"""Real A/A comparisons: a commit against itself, twenty times, and nothing may alarm.

    python tests/acceptance/paired_quiet.py FILE [--times 20] [--rounds 6] [--minutes 11]

Each is a whole `harness compare --run` in a process of its own: two worktrees, interleaved pairs of
workers, gates, verdicts. A line a comparison is added to FILE and the run goes on where it ended,
so that it can be made in pieces (`--minutes`). Prints the verdicts of each, and how far the ratios
lay from 1; ends with 1 where one alarmed or called anything changed.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.paths import root

SUITE = """
suite: quiet
stacks: [mha, gqa]
model: tiny
workload: {kind: generate, batch: 2, prompt_tokens: 32, new_tokens: 32}
measure: {rounds: 1, min_samples: 20, max_seconds: 0.5}
gate: {exactness: false}
"""


def measure(file: Path, times: int, rounds: int, minutes: float) -> None:
    """Add comparisons to the file until it holds that many, or the time is over."""
    end = time.monotonic() + 60 * minutes
    for _ in range(len(_read(file)), times):
        start = time.monotonic()
        entry = _compare(rounds)
        entry["seconds"] = round(time.monotonic() - start, 1)
        with file.open("a") as opened:
            opened.write(json.dumps(entry) + "\n")
        # Another one takes as long as this one did.
        if 2 * time.monotonic() - start > end:
            return


def _compare(rounds: int) -> dict[str, Any]:
    git = ("git", "rev-parse", "HEAD")
    commit = subprocess.run(git, cwd=root(), capture_output=True, text=True, check=True)
    revision = commit.stdout.strip()
    with TemporaryDirectory() as name:
        folder = Path(name)
        suite, told = folder / "quiet.yaml", folder / "told.json"
        suite.write_text(SUITE)
        command = [
            sys.executable, "-P", "-m", "harness", "compare", "--run", revision, revision,
            str(suite), "--rounds", str(rounds), "--profile", "cpu",
            "--db", str(folder / "quiet.db"), "--output", str(told),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=root(), check=False)
        if not told.exists():
            raise SystemExit(f"the comparison ended with {done.returncode}: {done.stderr[-2000:]}")
        rows = json.loads(told.read_text())["rows"]
    kept = ("verdict", "ratio", "ci_low", "ci_high", "n", "p", "alarm")
    return {
        "commit": revision,
        "exit": done.returncode,
        "rows": [
            {"case": r["subject"]["title"], "metric": r["subject"]["metric"]}
            | {key: r[key] for key in kept}
            for r in rows
        ],
    }


def tell(file: Path, times: int) -> int:
    """Print what came out; 1 where anything was called changed."""
    done = _read(file)
    changed = 0
    for number, entry in enumerate(done, 1):
        counts = Counter(row["verdict"] for row in entry["rows"])
        wrong = [
            r for r in entry["rows"] if r["alarm"] or r["verdict"] in ("regressed", "improved")
        ]
        changed += bool(wrong or entry["exit"])
        shown = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        print(f"{number:>3}  exit {entry['exit']}  {entry['seconds']:>6.1f} s  {shown}")
        for row in wrong:
            print(f"     {row['case']} {row['metric']}: {row['verdict']}, {row['ratio']:.4f} "
                  f"[{row['ci_low']}, {row['ci_high']}], p {row['p']}")  # fmt: skip
    logs: dict[str, list[float]] = {}
    inside: Counter[str] = Counter()
    for row in (row for entry in done for row in entry["rows"]):
        if row["ratio"] and row["ci_low"] != row["ci_high"]:
            logs.setdefault(row["metric"], []).append(abs(math.log(row["ratio"])))
            inside[row["metric"]] += row["ci_low"] <= 1 <= row["ci_high"]
    for metric, off in logs.items():
        print(f"{metric}: {len(off)} ratios, {100 * sum(off) / len(off):.2f} % from 1 on average, "
              f"{100 * max(off):.2f} % at most; {inside[metric]} intervals hold 1")  # fmt: skip
    print(f"{changed} of {len(done)} comparisons of a commit with itself called something changed")
    return 1 if changed or len(done) < times else 0


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main() -> int:
    """Measure what is missing, then tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=math.inf)
    asked = parser.parse_args()
    measure(asked.file, asked.times, asked.rounds, asked.minutes)
    return tell(asked.file, asked.times)


if __name__ == "__main__":
    sys.exit(main())
