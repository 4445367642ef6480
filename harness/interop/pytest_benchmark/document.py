"""What `pytest --benchmark-json FILE` writes, as a sweep of the store: a file a process.

A benchmark is a case of its own: the kernel's name is the test's full name, which is the same on
every run, and nothing in the file that varies (clock, load, rates) enters the key. So a history of
imports is a series a benchmark, that `harness regress` and `harness compare` read like any other.
They never meet the workload `kernel` of a sweep, which measures otherwise and has gates.

The file tells neither memory nor GPU, so it is imported where it was made, and the device is the
one that is found here. Backend and dtype are read off the words of the test's parameters, where
they name them; how many threads ran is not told, and stands as the default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from pydantic import AwareDatetime, Field, ValidationError, field_validator

from harness.analysis.history.confirmation import IMPORTED
from harness.errors import UsageError, printable, printable_path
from harness.hardware.environment import environment
from harness.hardware.identity import HardwareRow, RevisionRow
from harness.hardware.revision import revision
from harness.measure.interval import median
from harness.records import Record
from harness.run import MetricValue, RunRecord, SampleSet
from harness.shape import DTypeName
from harness.store import SweepStart
from harness.suite.case import Backend, Case
from harness.suite.points import KernelPoint

METRIC = "kernel_time"
# Words of a test's parameters that say what it ran on; kernels' benchmarks name both.
BACKENDS: dict[str, Backend] = {"eager": "torch", "torch": "torch", "triton": "triton"}
DTYPES: tuple[DTypeName, ...] = get_args(DTypeName)


class _Loose(Record, extra="ignore"):
    """A part of a file that others write: what is not needed is not looked at."""


class _Stats(_Loose):
    data: list[float] = Field(default_factory=list)  # seconds a call, one a round
    median: float = Field(ge=0, allow_inf_nan=False)
    rounds: int = Field(gt=0)
    total: float = Field(0.0, ge=0, allow_inf_nan=False)


class _Benchmark(_Loose):
    fullname: str = Field(min_length=1)
    param: str | None = None
    stats: _Stats


class _Processor(_Loose):
    brand_raw: str | None = None


class _Machine(_Loose):
    node: str = ""
    python_version: str | None = None
    cpu: _Processor = Field(default_factory=_Processor)


class _Commit(_Loose):
    id: str
    time: datetime | None = None
    dirty: bool = False
    project: str | None = None
    branch: str | None = None


class _Document(_Loose):
    machine_info: _Machine
    commit_info: _Commit
    benchmarks: list[_Benchmark]
    written_at: AwareDatetime = Field(alias="datetime")
    version: str

    @field_validator("written_at", mode="before")
    @classmethod
    def _in_utc(cls, value: Any) -> Any:
        """Older versions wrote UTC without saying so."""
        if isinstance(value, str) and not re.search(r"(Z|[+-]\d\d:\d\d)$", value):
            return f"{value}+00:00"
        return value


@dataclass(frozen=True)
class Imported:
    """One or more files, one a process, as the store takes them."""

    start: SweepStart
    runs: tuple[tuple[Case, RunRecord], ...]


def read(paths: Sequence[Path], hardware: HardwareRow, only: Sequence[str] = ()) -> Imported:
    """The files as one sweep, each of them a round.

    Args:
        paths: of one commit and one machine.
        hardware: the device that was measured, found on this machine.
        only: globs of full names; what matches none of them is left out and will not be missed.

    Raises:
        UsageError: a file that is not of pytest-benchmark, or of another machine than this one;
            files of several commits; nothing in them.
    """
    texts = [_text(path) for path in paths]
    documents = [_document(text, path) for text, path in zip(texts, paths, strict=True)]
    first = documents[0]
    for path, other in zip(paths, documents, strict=True):
        _require_here(other, hardware, path)
        if (other.commit_info.id, other.commit_info.dirty) != (
            first.commit_info.id,
            first.commit_info.dirty,
        ):
            raise UsageError(
                f"{printable_path(path)} is of another commit than {printable_path(paths[0])}; "
                "files that are imported together are one night"
            )
    runs = [
        _run(benchmark, document, number, slot)
        for number, document in enumerate(documents)
        for slot, benchmark in enumerate(document.benchmarks)
        if not only or any(fnmatchcase(benchmark.fullname, glob) for glob in only)
    ]
    if not runs:
        raise UsageError("there is no benchmark in " + ", ".join(map(printable_path, paths)))
    digest = sha256("\0".join(texts).encode()).hexdigest()
    start = SweepStart(
        # The same files are the same sweep, however often they are imported.
        uid=sha256("\0".join([digest, *only]).encode()).hexdigest()[:32],
        suite=IMPORTED,
        suite_hash=sha256(IMPORTED.encode()).hexdigest(),
        suite_text="",
        argv=("db", "import", *(p.name for p in paths), *(w for g in only for w in ("--only", g))),
        seed=0,
        started_at=min(document.written_at for document in documents),
        hardware=hardware,
        environment=environment().model_copy(
            update={"python": p} if (p := first.machine_info.python_version) else {}
        ),
        revision=_revision(first.commit_info, digest),
    )
    return Imported(start, tuple(runs))


def case(benchmark: str, param: str | None) -> Case:
    """The case of a benchmark, by its full name and the words of its parameters."""
    words = re.split(r"[-_\s]", param or "")
    backends = [BACKENDS[word] for word in words if word in BACKENDS]
    dtypes = [dtype for dtype in DTYPES if dtype in words]
    return Case(
        stack=None,
        model="",
        checkpoint_hash=None,
        workload=KernelPoint(kernel=benchmark, sizes={}),
        backend=backends[-1] if backends else "torch",
        dtype=dtypes[-1] if dtypes else "float32",
    )


def _run(
    benchmark: _Benchmark, document: _Document, number: int, slot: int
) -> tuple[Case, RunRecord]:
    about, stats = case(benchmark.fullname, benchmark.param), benchmark.stats
    times = [1e9 * seconds for seconds in stats.data]
    centre = median(times or [1e9 * stats.median])
    metric = MetricValue(
        name=METRIC,
        value=centre.value,
        n=len(times) or stats.rounds,
        ci_low=centre.low,
        ci_high=centre.high,
    )
    samples = SampleSet(metric=METRIC, unit="ns", values=[round(time) for time in times])
    return about, RunRecord(
        case_hash=about.hash,
        status="ok",
        round=number,
        order_slot=slot,
        started_at=document.written_at,
        seconds=stats.total or sum(stats.data),
        telemetry={"pytest_benchmark": document.version},
        metrics=[metric],
        samples=[samples] if times else [],
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"{printable_path(path)} cannot be read: {why}") from error


def _document(text: str, path: Path) -> _Document:
    try:
        return _Document.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:
        why = "it is no JSON"
        if isinstance(error, ValidationError):
            fault = error.errors()[0]
            why = f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}"
        raise UsageError(
            f"{printable_path(path)} is not of 'pytest --benchmark-json': {why}"
        ) from error


def _require_here(document: _Document, hardware: HardwareRow, path: Path) -> None:
    theirs = document.machine_info.cpu.brand_raw
    if theirs and " ".join(theirs.split()) != " ".join(hardware.cpu.split()):
        raise UsageError(
            f"{printable_path(path)} was measured on '{printable(theirs)}' and this machine is "
            f"'{hardware.cpu}'; import it there and bring the database here with 'harness db merge'"
        )


def _revision(commit: _Commit, digest: str) -> RevisionRow | None:
    """The commit as the file tells it; git here knows more of one that is checked out."""
    if commit.id == "unversioned" or not commit.id:
        return None
    here = revision()
    if here is not None and here.commit == commit.id and here.dirty == commit.dirty:
        return here
    at = commit.time
    return RevisionRow(
        repo=commit.project or "unknown",
        commit=commit.id,
        branch=None if not commit.branch or commit.branch.startswith("(") else commit.branch,
        committed_at=at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at,
        dirty=commit.dirty,
        diff_hash=digest if commit.dirty else "",
    )
