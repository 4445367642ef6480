"""A whole sweep: lock the machine, open the store, say who measures, plan, measure, close."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir

from harness.hardware.calibration import calibrate, stored, with_ceilings
from harness.hardware.ceilings import Ceilings, InForce
from harness.hardware.environment import environment
from harness.hardware.identity import EnvironmentRow, HardwareRow
from harness.hardware.revision import revision
from harness.predict.target import Target
from harness.store import SweepRow, SweepStart, open_reader, open_store
from harness.suite import Planned, Profile, Suite, with_profile
from harness.sweep import resume
from harness.sweep.executor import THREAD_VARIABLES, Executor, LocalExecutor
from harness.sweep.expect import expect
from harness.sweep.history import History
from harness.sweep.interruption import Interruption
from harness.sweep.lock import DeviceLock
from harness.sweep.memory import available_bytes
from harness.sweep.outcome import Outcome
from harness.sweep.plan import SweepPlan
from harness.sweep.predicted import store_predictions
from harness.sweep.progress import Progress
from harness.sweep.run import measure

# (device, threads, dtypes) -> what it can do at most.
Limits = Callable[[str, int, Sequence[str]], Ceilings]

SEED_BOUND = 2**31  # seeds that a person can copy and every library takes


@dataclass(frozen=True)
class Order:
    """What was asked for, read and checked.

    `argv` is the command line in the form that `resume.choice` reads. Without a seed one is drawn,
    and stored: an order that never changed would favour the same cases every night.
    """

    suite: Suite
    profile: Profile
    cases: tuple[Planned, ...]
    argv: tuple[str, ...]
    seed: int | None = None
    resume: bool = False
    budget_s: float | None = None
    plugin_paths: tuple[str, ...] = ()
    clock: str | None = None  # "module:function" for the self-test's lying clocks
    predict_for: tuple[Target, ...] = ()  # devices beside the one that is measured
    datasheet: Ceilings | None = None  # of the one that is measured


def run_sweep(
    order: Order,
    hardware: HardwareRow,
    *,
    url: str | None,
    progress: Progress,
    lock: Path | None = None,
    executor: Callable[[Interruption], Executor] = LocalExecutor,
    limits: Limits = calibrate,
) -> Outcome:
    """Measure a suite on this machine and store every run. Call it in the main thread.

    Args:
        order: what to measure.
        hardware: the device, from `harness.hardware.detection.detect`.
        url: the database; None is `results/harness.db`.
        progress: told of every step.
        lock: the lock's file; None is the machine's own, see `machine_lock`.
        executor: makes what makes the runs, given where to ask whether to stop.
        limits: measures the device's ceilings.

    Raises:
        UsageError: nothing to resume, or a database that cannot be written.
        InfrastructureError: another sweep is measuring, a server or a device that fails.
    """
    with DeviceLock(lock or machine_lock()) as held, open_store(url) as store:
        if held.taken_over is not None:
            progress.note(f"took over the lock of process {held.taken_over.pid}, which has died")
        with open_reader(url) as reader:
            known = reader.sweeps()
            kept = reader.hardware(hardware.identity_hash)
            start = begin(order, with_known_calibration(hardware, kept))
            resumed = resume.find(start, known) if order.resume else None
            runs = [] if resumed is None else reader.runs(resumed.id)
        if resumed is not None:
            start = start.model_copy(update={"seed": resumed.seed})
        # A resumed sweep keeps the limits that it began with.
        anew = resumed is None
        with_limits = calibrated(start.hardware, order.cases, progress.note, limits, anew=anew)
        kept_limits = None if resumed is None else resumed.ceilings
        start = start.model_copy(
            update={
                "hardware": with_limits,
                "ceilings": kept_limits or in_force(order, with_limits),
            }
        )
        plan = plan_of(order, start)
        with Interruption() as interruption:
            if resumed is not None:
                start = start.model_copy(
                    update={"uid": resumed.uid, "started_at": resumed.started_at}
                )
            # Before the sweep itself, which is then the last one.
            store_predictions(store, start, order.predict_for, order.cases)
            if resumed is None:
                sweep_id = store.begin_sweep(start)
                progress.note(f"sweep {sweep_id}, seed {start.seed}")
            else:
                sweep_id = resumed.id
                store.resume_sweep(sweep_id)
                progress.note(_resuming(resumed, len(runs)))
            with progress:
                return measure(
                    plan,
                    sweep_id,
                    executor=executor(interruption),
                    store=store,
                    progress=progress,
                    history=History(runs),
                    interruption=interruption,
                )


def machine_lock() -> Path:
    """The lock file of this machine, whatever the database: there is one processor to share."""
    return Path(gettempdir()) / "inference-harness.lock"


def begin(order: Order, hardware: HardwareRow) -> SweepStart:
    """The sweep that would begin now: who measures what, with which code."""
    return SweepStart(
        suite=order.suite.suite,
        suite_hash=order.suite.hash,
        suite_text=order.suite.text,
        argv=order.argv,
        seed=secrets.randbelow(SEED_BOUND) if order.seed is None else order.seed,
        started_at=datetime.now(UTC),
        hardware=hardware,
        environment=surroundings(),
        revision=revision(),
        ceilings=in_force(order, hardware),
    )


def in_force(order: Order, hardware: HardwareRow) -> InForce:
    """The limits that judge these cases on this hardware."""
    measured = known_ceilings(hardware, order.cases)
    return InForce(measured=measured, datasheet=order.datasheet)


def surroundings() -> EnvironmentRow:
    """The environment of workers: the suite gives them their threads, whatever this process has."""
    variables = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    return environment(variables)


def plan_of(order: Order, start: SweepStart) -> SweepPlan:
    """What the sweep is going to do on this hardware."""
    laid = with_profile(order.suite, order.profile)
    hardware, limits = start.hardware, start.ceilings or InForce()
    on_cpu = hardware.kind == "cpu"
    return SweepPlan(
        cases=order.cases,
        measure=laid.measure,
        gate=laid.gate,
        seed=start.seed,
        device=hardware.kind,
        plugin_paths=order.plugin_paths,
        ceilings=limits.measured,
        datasheet=limits.datasheet,
        expected=expect(order.cases, laid.measure, hardware.kind, limits.measured),
        available_bytes=available_bytes() if on_cpu else hardware.memory_bytes,
        budget_s=order.budget_s,
        clock=order.clock,
        slo=laid.slo,
    )


def known_ceilings(hardware: HardwareRow, planned: Iterable[Planned]) -> dict[int, Ceilings]:
    """By threads, the limits that the hardware's row holds for these cases."""
    found = {threads: stored(hardware, threads, dtypes) for threads, dtypes in _wanted(planned)}
    return {threads: ceilings for threads, ceilings in found.items() if ceilings is not None}


def calibrated(
    hardware: HardwareRow,
    planned: Iterable[Planned],
    note: Callable[[str], None],
    limits: Limits = calibrate,
    *,
    anew: bool,
) -> HardwareRow:
    """The hardware with limits for these cases, measured where they are missing, or all `anew`."""
    for threads, dtypes in _wanted(planned):
        if anew or stored(hardware, threads, dtypes) is None:
            note(f"measuring what {hardware.name} can do at most, {threads} thread(s)")
            hardware = with_ceilings(hardware, threads, limits(hardware.kind, threads, dtypes))
    return hardware


def _wanted(planned: Iterable[Planned]) -> list[tuple[int, list[str]]]:
    """Numbers of threads that cases use, with the dtypes each needs a limit for."""
    wanted: dict[int, set[str]] = {}
    for entry in planned:
        # The numeric gate runs once more in float32, whatever dtype is timed.
        wanted.setdefault(entry.case.threads, {"float32"}).add(entry.case.dtype)
    return [(threads, sorted(dtypes)) for threads, dtypes in sorted(wanted.items())]


def with_known_calibration(hardware: HardwareRow, kept: HardwareRow | None) -> HardwareRow:
    """The hardware with what an earlier sweep, or `harness calibrate`, measured on it."""
    if kept is None:
        return hardware
    return hardware.model_copy(update={"calibration": kept.calibration})


def _resuming(resumed: SweepRow, runs: int) -> str:
    began = resumed.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"resuming sweep {resumed.id} of {began}, of which {runs} runs are stored"
