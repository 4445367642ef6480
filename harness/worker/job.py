"""The job that a sweep hands to a worker in a file; a run (`harness.run`) comes back in another."""

from __future__ import annotations

from harness.hardware.ceilings import Ceilings as Ceilings
from harness.records import Record
from harness.run import FORMAT_VERSION
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.suite.slo import Slo


class Job(Record):
    """One run to make: a case, how to measure it, and where in the sweep it stands."""

    format_version: int = FORMAT_VERSION
    case: Case
    measure: MeasureSettings
    gate: GateSettings
    seed: int  # the sweep's, which ordered its runs; nothing is drawn from it
    round: int
    order_slot: int
    attempt: int = 1
    device: str = "cpu"
    plugin_paths: tuple[str, ...] = ()
    ceilings: Ceilings | None = None  # measured
    datasheet: Ceilings | None = None  # what the vendor says it cannot exceed
    slo: Slo | None = None  # what goodput asks of a request
    # "module:function" returning nanoseconds, for the self-test's lying clocks.
    clock: str | None = None
