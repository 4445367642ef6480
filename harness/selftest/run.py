"""The trials through the real sweep, into a database that is thrown away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from harness import registry
from harness.hardware.calibration import calibrate
from harness.hardware.ceilings import Ceilings
from harness.hardware.identity import HardwareRow
from harness.run import RunRecord
from harness.selftest.judge import Verdict, judge
from harness.selftest.trials import Trial
from harness.store import open_reader
from harness.suite import Suite, cases, document
from harness.suite.case import Case
from harness.sweep import Order, run_sweep
from harness.sweep.order import point, turns
from harness.sweep.session import Limits

FAKES = Path(__file__).parent / "fakes"

_SUITE = """
suite: selftest
stacks: [{stacks}]
model: tiny
workload: {{kind: generate, batch: [{batches}], prompt_tokens: 16, new_tokens: {new_tokens}}}
measure: {{rounds: 1, min_samples: 5, max_seconds: 1, precision: 0.5, timeout_seconds: {timeout}}}
"""


def selftest(
    trials: Sequence[Trial],
    hardware: HardwareRow,
    say: Callable[[str], None],
    *,
    lock: Path | None = None,
    limits: Limits = calibrate,
) -> Iterator[Verdict]:
    """Run trials and judge each. Stops after the group in which a signal came.

    Args:
        trials: of `harness.selftest.trials.TRIALS`.
        hardware: the device.
        say: told a line for every run.
        lock: the lock's file; None is the machine's own.
        limits: measures the device's ceilings, once for all.
    """
    registry.install([FAKES])
    progress = _Lines(len(trials), say)

    @cache
    def measured(device: str, threads: int, dtypes: tuple[str, ...]) -> Ceilings:
        return limits(device, threads, dtypes)

    with TemporaryDirectory(prefix="harness-selftest-") as folder:
        for number, group in enumerate(_groups(trials)):
            order = _order(group, hardware)
            url = str(Path(folder) / f"{number}.db")
            outcome = run_sweep(
                order,
                hardware,
                url=url,
                progress=progress,
                lock=lock,
                limits=lambda device, threads, dtypes: measured(device, threads, tuple(dtypes)),
            )
            with open_reader(url) as reader:
                runs = reader.runs(outcome.sweep_id)
            for trial in group:
                records: list[RunRecord] = [
                    run.record
                    for run in runs
                    if run.case.label == trial.stack and run.case.generated.batch == trial.batch
                ]
                yield judge(trial, records)
            if outcome.signum is not None:
                return


class _Lines:
    """A line a run. What runs take is not foretold: some fakes lie about that too."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total = total
        self._say = say
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    def begin(self, runs: int, expected_s: float) -> None:
        """Nothing to say."""

    def start(self, case: Case, number: int) -> None:
        """Say which trial it is."""
        self._made += 1
        self._say(f"[{self._made}/{self._total}] {case.title}, round {number}")

    def finish(self, case: Case, record: RunRecord, took_s: float, left_s: float) -> None:
        """Nothing to say: the table does."""

    def skip(self, runs: int) -> None:
        """Made without a process."""
        self._made += runs

    def note(self, sentence: str) -> None:
        """Nothing to say."""


def _groups(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that can share a sweep: the same clock, length and timeout, and a stack only once."""
    groups: dict[tuple[object, ...], list[Trial]] = defaultdict(list)
    for trial in trials:
        alone = trial.stack if any(t.stack == trial.stack and t.batch > 1 for t in trials) else ""
        groups[trial.clock, trial.new_tokens, trial.timeout_s, alone].append(trial)
    return list(groups.values())


def _order(group: Sequence[Trial], hardware: HardwareRow) -> Order:
    first = group[0]
    text = _SUITE.format(
        stacks=", ".join(dict.fromkeys(trial.stack for trial in group)),
        batches=", ".join(str(b) for b in sorted({trial.batch for trial in group})),
        new_tokens=first.new_tokens,
        timeout=first.timeout_s,
    )
    suite = Suite.of(document.read(text, "the self-test's suite"))
    planned = cases(suite, hardware.profile)
    # In the order of sizes, so that a larger case comes after the one that it is skipped for.
    points = [point(entry.case) for entry in planned]
    seed = next(n for n in count() if turns(points, 1, n)[0].case == 0)
    return Order(
        suite=suite,
        profile=hardware.profile,
        cases=tuple(planned),
        argv=("sweep", "selftest"),
        seed=seed,
        plugin_paths=(str(FAKES),),
        clock=first.clock,
    )
