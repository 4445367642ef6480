"""kill -9 a sweep at random moments and resume it: nothing stored is lost, nothing made twice.

    python tests/acceptance/kill_resume.py [--kills 50] [--seed N] [--folder F]

Everything is real but the worker (see trivial.py). A sweep that ends is followed by another in
the same database. Exit code 1 when a run is lost or made twice, or the database is damaged.
"""

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

_TRIVIAL = Path(__file__).with_name("trivial.py")
# One kill in four falls while the sweep starts, the others so many runs later, on any machine.
_EARLY_SHARE, _EARLY_S = 0.25, 3.0
_MOST_RUNS, _LATE_S = 12, 0.3
_GIVE_UP_S = 120.0
_REFUSED = 2

_RUNS = """
SELECT run.sweep_id, run.label, json_extract("case".workload, '$.batch'), run.round,
       run.started_at
FROM run JOIN "case" ON run.case_id = "case".id
"""


def main() -> int:
    """Kill and resume, then check what is left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="kill-resume-") as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        faults = torture(folder / "results.db", asked.kills, random.Random(asked.seed))
        print(f"seed {asked.seed}: {summary(folder / 'results.db')}")
    for fault in faults:
        print(f"FAULT: {fault}")
    print("good" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


def torture(db: Path, kills: int, rng: random.Random, batches: int = 12) -> list[str]:
    """Kill and resume until the number is reached, then let a sweep end; the faults."""
    faults: list[str] = []
    killed, resuming, ended = 0, False, None
    while killed < kills or ended != 0:
        before = set(stored(db))
        begun = len(lines(db, "started"))
        ended = attempt(db, batches, resuming, rng if killed < kills else None)
        faults += check(db, before, lines(db, "started")[begun:], resuming)
        told = Path(f"{db}.told").read_text()
        if ended is None:
            killed += 1
        elif ended == _REFUSED and resuming and "resume" in told:
            # Killed before the sweep was begun, after it had ended, or somebody edits the checkout.
            pass
        elif ended != 0:
            return [*faults, f"a sweep ended with {ended}: {told.splitlines()[-1:]}"]
        resuming = ended is None
    return faults


def attempt(db: Path, batches: int, resuming: bool, rng: random.Random | None) -> int | None:
    """Run the sweep; its exit code, or None when it was killed first. Without `rng` no kill."""
    command = [sys.executable, str(_TRIVIAL), str(db), "--batches", str(batches), "--sleep", "0.02"]
    begun = len(lines(db, "started"))
    with (
        Path(f"{db}.told").open("w") as told,
        subprocess.Popen(
            [*command, *(["--resume"] if resuming else [])],
            stdout=subprocess.DEVNULL,
            stderr=told,
        ) as process,
    ):
        if rng is None:
            return process.wait()
        early = rng.random() < _EARLY_SHARE
        if not early:
            wanted = begun + rng.randint(1, _MOST_RUNS)
            give_up = time.monotonic() + _GIVE_UP_S
            while process.poll() is None and len(lines(db, "started")) < wanted:
                assert time.monotonic() < give_up, "the sweep begins no run"
                time.sleep(0.005)
        try:
            return process.wait(rng.uniform(0, _EARLY_S if early else _LATE_S))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return None


def check(
    db: Path, before: set[tuple[str, ...]], begun: list[str], resuming: bool
) -> Iterator[str]:
    """Faults after one attempt.

    Args:
        before: runs stored before it.
        begun: runs that a worker began during it.
        resuming: whether it resumed a sweep, so that no stored run of that sweep may begin again.
    """
    after = set(stored(db))
    for lost in before - after:
        yield f"stored, then lost: {lost}"
    told = {tuple(line.rsplit(" ", 1)) for line in lines(db, "stored")}
    kept = {(f"{label} {batch} {round_}", at) for _, label, batch, round_, at in after}
    for name, at in told - kept:
        yield f"said to be stored, and not there: {name} of {at}"
    if resuming and before:
        last = max(int(row[0]) for row in before)
        done = {" ".join(row[1:4]) for row in before if int(row[0]) == last}
        for name in done & set(begun):
            yield f"stored and made again: {name} of sweep {last}"
    for row, n in Counter(row[:4] for row in after).items():
        if n > 1:
            yield f"stored {n} times: {row}"
    if db.exists():
        with closing(sqlite3.connect(db)) as connection:
            [(verdict,)] = connection.execute("PRAGMA integrity_check").fetchall()
            if verdict != "ok":
                yield f"integrity_check: {verdict}"


def stored(db: Path) -> list[tuple[str, ...]]:
    """(sweep, stack, batch, round, start) of every run in the database, as text."""
    if not db.exists():
        return []
    with closing(sqlite3.connect(db)) as connection:
        try:
            rows = connection.execute(_RUNS).fetchall()
        except sqlite3.OperationalError:
            return []  # killed before the tables were made
    return [(*map(str, row[:4]), moment(row[4])) for row in rows]


def moment(text: str) -> str:
    """A stored time in the form in which the sweep notes it."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).isoformat()


def lines(db: Path, kind: str) -> list[str]:
    """Lines of the log beside the database."""
    file = Path(f"{db}.{kind}")
    return file.read_text().splitlines() if file.exists() else []


def summary(db: Path) -> str:
    """How many sweeps and runs there are."""
    rows = stored(db)
    begun = len(lines(db, "started"))
    sweeps = len({row[0] for row in rows})
    return f"{len(rows)} runs of {sweeps} sweeps stored, {begun} begun by workers"


if __name__ == "__main__":
    sys.exit(main())
