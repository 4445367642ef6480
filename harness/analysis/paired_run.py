"""A comparison that measures: the command line read, and pairs taken until cases are decided."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from harness import registry
from harness.analysis.compare import compare, undecided
from harness.analysis.judge import Rules
from harness.analysis.looks import FIRST, schedule
from harness.analysis.results import results
from harness.analysis.rows import Session
from harness.errors import UsageError
from harness.hardware.detection import detect
from harness.paths import root
from harness.store import StoredRun
from harness.suite import Profile, cases, load, override
from harness.sweep import Order
from harness.sweep.budget import parse_duration
from harness.sweep.pair_session import Pairing, PairOutcome, run_pairs
from harness.sweep.progress import Progress
from harness.sweep.session import SEED_BOUND

MOST_ROUNDS = 48  # of a session without a fixed number: seven looks


def order_of(
    suite: str | None,
    base: str,
    head: str,
    profile: Profile | None = None,
    settings: list[str] | None = None,
    only: list[str] | None = None,
    rounds: int | None = None,
    budget: str | None = None,
    seed: int | None = None,
    plugin_paths: list[str] | None = None,
) -> Order:
    """The command line of a comparison that measures, read and checked."""
    if suite is None:
        raise UsageError("--run needs a suite: harness compare --run BASE HEAD SUITE")
    if seed is not None and seed >= SEED_BOUND:
        raise UsageError(f"--seed {seed} is too large; seeds go to {SEED_BOUND - 1}")
    kind: Profile = "cuda" if detect(profile).kind == "cuda" else "cpu"
    folders = [str(Path(path).expanduser().resolve()) for path in plugin_paths or []]
    registry.install(plugin_paths or [])
    read = override(load(suite), settings or [])
    argv = ["compare", "--run", base, head, suite, "--profile", kind]
    for name, values in (("--set", settings), ("--only", only), ("--plugin-path", folders)):
        for value in values or []:
            argv += [name, value]
    for name, given in (("--rounds", rounds), ("--budget", budget), ("--seed", seed)):
        if given is not None:
            argv += [name, str(given)]
    return Order(
        suite=read,
        profile=kind,
        cases=tuple(cases(read, kind, only or [])),
        argv=tuple(argv),
        seed=seed,
        budget_s=None if budget is None else parse_duration(budget),
        plugin_paths=tuple(folders),
    )


def measure(
    order: Order,
    base: str,
    head: str,
    db: str | None,
    rounds: int | None,
    metrics: list[str],
    rules: Rules,
    lock: Path | None,
    progress: Progress,
) -> PairOutcome:
    """Measure both sides in pairs and store them, with more rounds while cases are unknown."""

    def decide(theirs: Sequence[StoredRun], ours: Sequence[StoredRun]) -> Collection[str]:
        looked = Session(interleaved=True, first=FIRST)
        sides = results(theirs), results(ours)
        now = datetime.now(UTC)
        return undecided(
            compare(*sides, looked, title="", at=now, metrics=metrics, rules=rules, forecast=False)
        )

    bounds = iter([rounds]) if rounds is not None else schedule(FIRST)
    most = rounds if rounds is not None else MOST_ROUNDS
    pairing = Pairing(base, head, bounds, most, decide, root())
    hardware = detect(order.profile)
    return run_pairs(order, pairing, hardware, url=db, progress=progress, lock=lock)
