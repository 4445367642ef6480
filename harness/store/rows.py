"""What goes into the store and what comes out of it: frozen records, no SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import uuid4

from pydantic import AwareDatetime, Field

from harness.hardware.ceilings import InForce
from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.records import Record
from harness.run import RunRecord
from harness.suite.case import Case

__all__ = [
    "EnvironmentRow",
    "HardwareRow",
    "HistoryPoint",
    "Info",
    "RevisionRow",
    "Source",
    "StoredRun",
    "SweepRow",
    "SweepStart",
    "SweepStatus",
]

# Whether a number was measured, computed for hardware we do not have, or read from compiled code.
Source = Literal["measured", "predicted", "static"]
# "running" stays behind where a sweep was killed; `--resume` continues it.
SweepStatus = Literal["running", "complete", "interrupted", "failed"]


class SweepStart(Record):
    """One execution of a suite on one host at one revision, as known when it begins.

    `uid` is the natural key: two databases that hold the same sweep merge into one row.
    """

    uid: str = Field(default_factory=lambda: uuid4().hex)
    suite: str
    suite_hash: str
    suite_text: str
    argv: tuple[str, ...]
    seed: int = Field(ge=-(2**63), lt=2**63)  # what a database's integer holds
    started_at: AwareDatetime
    hardware: HardwareRow
    environment: EnvironmentRow
    revision: RevisionRow | None = None  # None: not a git checkout
    ceilings: InForce | None = None  # None: not recorded, or nothing was measured


class SweepRow(SweepStart):
    """A stored sweep."""

    id: int
    status: SweepStatus
    ended_at: AwareDatetime | None = None
    runs: int = 0  # stored ones, of every status


@dataclass(frozen=True)
class StoredRun:
    """One run as stored; case and record equal those that were saved."""

    id: int
    case: Case
    record: RunRecord
    source: Source = "measured"


@dataclass(frozen=True)
class HistoryPoint:
    """One metric of one run, with what a chart or a regression test needs to place it."""

    run_id: int
    sweep_id: int
    case_hash: str
    hardware_hash: str
    environment_hash: str
    commit: str | None
    sweep_started_at: datetime  # UTC
    round: int
    value: float | None
    null_reason: str | None
    n: int
    ci_low: float | None
    ci_high: float | None


@dataclass(frozen=True)
class Info:
    """What `harness db info` shows of a database."""

    url: str  # without a password
    revision: str
    size_bytes: int | None  # None: a server's database
    counts: Mapping[str, int]  # rows by table
