"""A whole comparison: lock the machine, check out both sides, measure pairs, store two sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from harness.hardware.calibration import calibrate
from harness.hardware.identity import HardwareRow, RevisionRow
from harness.hardware.revision import revision
from harness.store import SweepStart, open_reader, open_store
from harness.sweep.executor import Executor, LocalExecutor
from harness.sweep.interruption import Interruption
from harness.sweep.lock import DeviceLock
from harness.sweep.paired import Decide, Looks, Side, measure_pairs
from harness.sweep.progress import Progress
from harness.sweep.resume import SESSION, SIDE
from harness.sweep.session import (
    Limits,
    Order,
    begin,
    calibrated,
    machine_lock,
    plan_of,
    with_known_calibration,
)
from harness.sweep.worktrees import HERE, Checkout, checked_out

# A side's checkout to what makes its runs.
MakeExecutor = Callable[[Interruption, Checkout], Executor]


@dataclass(frozen=True)
class Pairing:
    """Which revisions meet, and how often."""

    base: str
    head: str
    bounds: Iterator[int]  # rounds after which to look
    most: int  # rounds
    decide: Decide
    checkout: Path


@dataclass(frozen=True)
class PairOutcome:
    """A comparison that was measured, in whole or in part."""

    base_id: int
    head_id: int
    complete: bool
    signum: int | None = None


def local(interruption: Interruption, side: Checkout) -> Executor:
    """Workers of a side on this machine."""
    return LocalExecutor(interruption, variables=side.variables, written=side.written)


def run_pairs(
    order: Order,
    pairing: Pairing,
    hardware: HardwareRow,
    *,
    url: str | None,
    progress: Progress,
    lock: Path | None = None,
    executor: MakeExecutor = local,
    limits: Limits = calibrate,
) -> PairOutcome:
    """Measure two revisions against each other and store a sweep of each.

    Args:
        order: the suite, its cases and everything else that both sides share.
        pairing: the sides, and when to look.
        hardware: the device.
        url: the database; None is `results/harness.db`.
        progress: told of every step.
        lock: the lock's file; None is the machine's own.
        executor: makes what makes the runs of a side.
        limits: measures the device's ceilings.

    Raises:
        UsageError: a revision that does not exist, a database that cannot be written.
        InfrastructureError: another sweep is measuring, git or a device that fails.
    """
    mark = uuid4().hex
    with (
        DeviceLock(lock or machine_lock()),
        open_store(url) as store,
        checked_out(pairing.base, pairing.head, pairing.checkout) as checkouts,
    ):
        with open_reader(url) as reader:
            kept = reader.hardware(hardware.identity_hash)
        known = with_known_calibration(hardware, kept)
        with_limits = calibrated(known, order.cases, progress.note, limits, anew=True)
        start = begin(order, with_limits)
        plan = plan_of(order, start)
        with Interruption() as interruption, progress:
            base, head = (
                Side(
                    store.begin_sweep(_start(start, side, name, mark, pairing.checkout)),
                    executor(interruption, side),
                )
                for name, side in zip(("base", "head"), checkouts, strict=True)
            )
            progress.note(f"sweeps {base.sweep_id} and {head.sweep_id}, seed {start.seed}")
            complete = measure_pairs(
                plan,
                (base, head),
                Looks(pairing.bounds, pairing.most, pairing.decide),
                store=store,
                progress=progress,
                interruption=interruption,
            )
            return PairOutcome(base.sweep_id, head.sweep_id, complete, interruption.signum)


def _start(start: SweepStart, side: Checkout, name: str, mark: str, checkout: Path) -> SweepStart:
    """The sweep of one side: its own code, all else shared."""
    return start.model_copy(
        update={
            "uid": uuid4().hex,
            "argv": (*start.argv, SESSION, mark, SIDE, name),
            "revision": _revision(side, checkout),
        }
    )


def _revision(side: Checkout, checkout: Path) -> RevisionRow | None:
    """A worktree's revision, under the name of the repository that it belongs to."""
    found, own = revision(side.folder), revision(checkout)
    if found is None or own is None or side.name == HERE:
        return own if side.name == HERE else found
    return found.model_copy(update={"repo": own.repo})
