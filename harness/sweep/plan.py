"""What a sweep is going to do: its cases, how they are measured, and what is expected of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.hardware.ceilings import Ceilings
from harness.suite import Planned
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.slo import Slo
from harness.sweep.expect import Expected
from harness.sweep.order import Turn
from harness.worker.job import Job

# Before a contended or throttled run is tried again: for a device to cool, a neighbour to leave.
RETRY_PAUSE_S = 10.0


@dataclass(frozen=True)
class SweepPlan:
    """Everything that decides which runs are made, and how.

    `ceilings` go by threads, `expected` by case hash; a case of which nothing is expected takes
    `measure.max_seconds`. `available_bytes` is None where it is unknown.
    """

    cases: Sequence[Planned]
    measure: MeasureSettings
    gate: GateSettings
    seed: int
    device: str = "cpu"
    plugin_paths: tuple[str, ...] = ()
    ceilings: Mapping[int, Ceilings] = field(default_factory=dict)
    datasheet: Ceilings | None = None
    expected: Mapping[str, Expected] = field(default_factory=dict)
    available_bytes: int | None = None
    budget_s: float | None = None
    retry_pause_s: float = RETRY_PAUSE_S
    clock: str | None = None
    slo: Slo | None = None

    def expected_s(self, case: Case) -> float:
        """Seconds of one run of this case, before any was seen."""
        expected = self.expected.get(case.hash)
        if expected is None or expected.seconds is None:
            return self.measure.max_seconds
        return expected.seconds

    def too_large(self, case: Case) -> str | None:
        """Why this case is expected to run out of memory; None when it is not."""
        expected = self.expected.get(case.hash)
        if expected is None or self.available_bytes is None:
            return None
        if expected.peak_bytes <= self.available_bytes:
            return None
        need, have = expected.peak_bytes / 1e9, self.available_bytes / 1e9
        return f"needs about {need:.1f} GB of memory, and {have:.1f} GB are available"

    def job(self, turn: Turn, attempt: int) -> Job:
        """The job file's content for one attempt at one turn."""
        case = self.cases[turn.case].case
        return Job(
            case=case,
            measure=self.measure,
            gate=self.gate,
            seed=self.seed,
            round=turn.round,
            order_slot=turn.order_slot,
            attempt=attempt,
            device=self.device,
            plugin_paths=self.plugin_paths,
            ceilings=self.ceilings.get(case.threads),
            datasheet=self.datasheet,
            clock=self.clock,
            slo=self.slo,
        )
