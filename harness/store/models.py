"""The tables. Integers of nanoseconds and bytes, times in UTC, NULL only with a reason.

Every table but the children of a run has a natural key (its unique constraint), so that merging two
databases finds what is there already. Constraints have names: SQLite can only drop named ones.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from harness.store.base import Base, Hash, Key


class Hardware(Base):
    """A device, or a catalogue entry to predict for."""

    __tablename__ = "hardware"
    __table_args__ = (UniqueConstraint("identity_hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    identity_hash: Mapped[str] = mapped_column(Hash)
    kind: Mapped[str]
    name: Mapped[str]
    arch: Mapped[str]
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    count: Mapped[int]
    cpu: Mapped[str]
    catalogue_name: Mapped[str | None]
    calibration: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class Environment(Base):
    """Driver, versions, settings: an epoch of a series, never part of its key."""

    __tablename__ = "environment"
    __table_args__ = (UniqueConstraint("hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(Hash)
    driver: Mapped[str | None]
    cuda: Mapped[str | None]
    torch: Mapped[str | None]
    triton: Mapped[str | None]
    python: Mapped[str]
    os: Mapped[str]
    container: Mapped[str | None]
    power_limit_w: Mapped[float | None]
    clocks: Mapped[dict[str, Any]]
    variables: Mapped[dict[str, Any]]


class Revision(Base):
    """The code that was measured."""

    __tablename__ = "revision"
    __table_args__ = (UniqueConstraint("repo", "commit", "diff_hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    repo: Mapped[str] = mapped_column(String(500))
    commit: Mapped[str] = mapped_column(Hash)
    parent: Mapped[str | None]
    branch: Mapped[str | None]
    committed_at: Mapped[datetime | None]
    dirty: Mapped[bool]
    diff_hash: Mapped[str] = mapped_column(Hash)  # "" of a clean tree: NULLs would not be unique


class Sweep(Base):
    """One execution of a suite."""

    __tablename__ = "sweep"
    __table_args__ = (UniqueConstraint("uid"), Index(None, "started_at"))

    id: Mapped[int] = mapped_column(primary_key=True)
    uid: Mapped[str] = mapped_column(String(32))
    suite: Mapped[str]
    suite_hash: Mapped[str]
    suite_text: Mapped[str]
    argv: Mapped[list[str]]
    seed: Mapped[int] = mapped_column(BigInteger)
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    status: Mapped[str]
    hardware_id: Mapped[int] = mapped_column(ForeignKey("hardware.id"))
    environment_id: Mapped[int] = mapped_column(ForeignKey("environment.id"))
    revision_id: Mapped[int | None] = mapped_column(ForeignKey("revision.id"))
    # Limits in force; those of the hardware's row may have risen since. NULL: not recorded.
    ceilings: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))

    hardware: Mapped[Hardware] = relationship()
    environment: Mapped[Environment] = relationship()
    revision: Mapped[Revision | None] = relationship()


class Case(Base):
    """One point of a grid, by the hash of its content. The stack's label is stored with the run."""

    __tablename__ = "case"
    __table_args__ = (UniqueConstraint("hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    hash: Mapped[str] = mapped_column(Hash)
    stack: Mapped[str | None]  # technique names joined by "+"; kernels: NULL
    options: Mapped[dict[str, Any]]  # slot to choices, with their non-default options
    model: Mapped[str]
    checkpoint_hash: Mapped[str | None]
    workload: Mapped[dict[str, Any]]
    backend: Mapped[str]
    dtype: Mapped[str]
    threads: Mapped[int]
    cuda_graph: Mapped[bool]
    cache_state: Mapped[str]
    definition_version: Mapped[int]


class Run(Base):
    """One case in one process."""

    __tablename__ = "run"
    __table_args__ = (
        UniqueConstraint("sweep_id", "case_id", "source", "round", "attempt"),
        Index(None, "case_id", "started_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    sweep_id: Mapped[int] = mapped_column(ForeignKey("sweep.id"))
    case_id: Mapped[int] = mapped_column(ForeignKey("case.id"))
    source: Mapped[str] = mapped_column(Key)
    label: Mapped[str]  # what this sweep's suite called the stack
    round: Mapped[int]
    order_slot: Mapped[int]
    attempt: Mapped[int]
    format_version: Mapped[int]
    status: Mapped[str]
    reason: Mapped[str | None]
    started_at: Mapped[datetime]
    seconds: Mapped[float]
    compile_seconds: Mapped[float | None]
    implementations: Mapped[dict[str, Any]]
    telemetry: Mapped[dict[str, Any]]
    stderr_tail: Mapped[str]

    sweep: Mapped[Sweep] = relationship()
    case: Mapped[Case] = relationship()
    metrics: Mapped[list[Metric]] = relationship(order_by="Metric.id")
    samples: Mapped[list[Samples]] = relationship(order_by="Samples.id")
    gates: Mapped[list[Gate]] = relationship(order_by="Gate.id")


class Metric(Base):
    """One number of one run."""

    __tablename__ = "metric"
    __table_args__ = (
        UniqueConstraint("run_id", "name"),
        CheckConstraint("(value IS NULL) = (null_reason IS NOT NULL)", name="null_has_reason"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    name: Mapped[str] = mapped_column(Key)
    value: Mapped[float | None]
    null_reason: Mapped[str | None]
    n: Mapped[int]
    ci_low: Mapped[float | None]
    ci_high: Mapped[float | None]


class Samples(Base):
    """All samples of one metric of one run, in one blob; `codec` says how to read it."""

    __tablename__ = "samples"
    __table_args__ = (UniqueConstraint("run_id", "metric"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    metric: Mapped[str] = mapped_column(Key)
    unit: Mapped[str]
    codec: Mapped[str]
    n: Mapped[int]
    data: Mapped[bytes]


class Gate(Base):
    """What one check of one run saw. A name may come twice: before and after timing."""

    __tablename__ = "gate"
    __table_args__ = (Index(None, "run_id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id"))
    name: Mapped[str]
    passed: Mapped[bool]
    observed: Mapped[float | None]
    bound: Mapped[float | None]
    unit: Mapped[str]
    detail: Mapped[str]


class Alert(Base):
    """A change in one series (case x hardware x metric), with its evidence and what was decided.

    `created_at` is the start of the sweep that found it, so that two databases that judged the same
    history merge into one row.
    """

    __tablename__ = "alert"
    __table_args__ = (
        UniqueConstraint("case_id", "hardware_id", "metric", "kind", "created_at"),
        Index(None, "state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("case.id"))
    hardware_id: Mapped[int] = mapped_column(ForeignKey("hardware.id"))
    metric: Mapped[str] = mapped_column(Key)
    kind: Mapped[str] = mapped_column(Key)
    from_revision_id: Mapped[int | None] = mapped_column(ForeignKey("revision.id"))
    to_revision_id: Mapped[int | None] = mapped_column(ForeignKey("revision.id"))
    effect: Mapped[float | None]
    interval_low: Mapped[float | None]
    interval_high: Mapped[float | None]
    cause: Mapped[str]
    state: Mapped[str]
    reason: Mapped[str]
    created_at: Mapped[datetime]
    source: Mapped[str] = mapped_column(Key, server_default="measured")
    since: Mapped[datetime | None]  # start of the first sweep at the new level
    base: Mapped[float | None]  # levels before and after, in the metric's unit
    head: Mapped[float | None]
    confidence: Mapped[float | None]


class AcceptedLevel(Base):
    """From this sweep on a level is the accepted one: what came before it is history."""

    __tablename__ = "accepted_level"
    __table_args__ = (UniqueConstraint("case_id", "hardware_id", "source", "metric", "created_at"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("case.id"))
    hardware_id: Mapped[int] = mapped_column(ForeignKey("hardware.id"))
    source: Mapped[str] = mapped_column(Key)
    metric: Mapped[str] = mapped_column(Key)
    since: Mapped[datetime]  # start of the first sweep at that level
    level: Mapped[float | None]  # in the metric's unit; NULL: what those sweeps have
    reason: Mapped[str]
    created_at: Mapped[datetime]
