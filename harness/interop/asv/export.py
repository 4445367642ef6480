"""Results as asv keeps them, so that `asv publish`, `show` and `compare` work on them.

Written from asv's format on disk (results version 2, machine version 1), without importing it. asv
takes smaller for better, everywhere: metrics that are better high are exported as their
reciprocal, "s/token" for a throughput. It draws a line a combination of a machine's `params`, so a
driver or a library in there would begin a new line with each update and hide every step; only what
identifies the device stands there. It keeps one value for a commit: that of the newest sweep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.analysis.results import Result
from harness.errors import UsageError
from harness.hardware.identity import HardwareRow
from harness.interop.asv.values import cells, label, milliseconds, name, unit
from harness.metrics import METRICS
from harness.store.rows import SweepRow

ENVIRONMENT = "harness"  # asv's name for what it ran in: one, or each would be a line of its own
VERSION = "1"
_COLUMNS = (
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
)  # fmt: skip
_LIST_COLUMNS = ("result", *_COLUMNS[5:12])  # a value for each cell


@dataclass
class _Commit:
    """What was measured on one device at one commit."""

    hardware: HardwareRow
    commit: str
    committed_at: datetime
    cells: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Exported:
    """What was written, and which sweeps were left out and why."""

    commits: int
    benchmarks: int
    left_out: tuple[tuple[int, str], ...]


def export(
    sweeps: Iterable[tuple[SweepRow, Sequence[Result]]], folder: Path, known: frozenset[str] | None
) -> Exported:
    """Write asv's results folder.

    Args:
        sweeps: with their results, oldest first; of a commit the newest counts.
        folder: asv's `results_dir`.
        known: commits of the repository that asv will look at; None takes all.

    Raises:
        UsageError: nothing to export, or a folder that cannot be written.
    """
    found: dict[tuple[str, str], _Commit] = {}
    labels: dict[str, str] = {}
    left_out = []
    for sweep, results in sweeps:
        why = _unfit(sweep, known)
        if why is not None:
            left_out.append((sweep.id, why))
            continue
        assert sweep.revision is not None
        assert sweep.revision.committed_at is not None
        key = (sweep.hardware.identity_hash, sweep.revision.commit)
        at = found.setdefault(
            key, _Commit(sweep.hardware, sweep.revision.commit, sweep.revision.committed_at)
        )
        for result in results:
            labels[result.case.hash] = label(result.case)
            at.cells |= cells(result, sweep.started_at)
    if not any(commit.cells for commit in found.values()):
        why = f" (sweep {left_out[-1][0]}: {left_out[-1][1]})" if left_out else ""
        raise UsageError(f"there is nothing to export to asv{why}")
    _distinguish(labels)
    benchmarks = _benchmarks(found.values(), labels)
    try:
        _write(folder, found.values(), benchmarks, labels)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return Exported(len(found), len(benchmarks), tuple(left_out))


def _unfit(sweep: SweepRow, known: frozenset[str] | None) -> str | None:
    """Why asv could not place a sweep in its history."""
    revision = sweep.revision
    if revision is None or revision.committed_at is None:
        return "its commit is not known"
    if revision.dirty:
        return "it had uncommitted changes"
    if known is not None and revision.commit not in known:
        return f"commit {revision.commit[:12]} is not in the repository"
    if sweep.argv[:1] != ("sweep",):
        return f"it is a {sweep.argv[0] if sweep.argv else 'run by hand'}, and no sweep of a night"
    return None


def _distinguish(labels: dict[str, str]) -> None:
    """Add a piece of the hash where two cases have one label."""
    seen = list(labels.values())
    for case_hash, told in list(labels.items()):
        if seen.count(told) > 1:
            labels[case_hash] = f"{told} [{case_hash[:8]}]"


def _benchmarks(commits: Iterable[_Commit], labels: dict[str, str]) -> dict[str, dict[str, Any]]:
    """asv's table of benchmarks: one a metric, its cases as the one parameter."""
    cases: dict[str, set[str]] = {}
    for commit in commits:
        for metric, case_hash in commit.cells:
            cases.setdefault(metric, set()).add(labels[case_hash])
    return {
        metric: {
            "name": name(METRICS[metric]),
            "code": METRICS[metric].formula,
            "param_names": ["case"],
            "params": [[repr(told) for told in sorted(known)]],
            "timeout": 60.0,
            "type": "track",
            "unit": unit(METRICS[metric]),
            "version": VERSION,
        }
        for metric, known in sorted(cases.items())
    }


def _write(
    folder: Path,
    commits: Iterable[_Commit],
    benchmarks: dict[str, dict[str, Any]],
    labels: dict[str, str],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table: dict[str, Any] = {entry["name"]: entry for entry in benchmarks.values()}
    _dump(folder / "benchmarks.json", {**table, "version": 2})
    for commit in commits:
        facts = _machine(commit.hardware)
        machine = folder / facts["machine"]
        machine.mkdir(exist_ok=True)
        _dump(machine / "machine.json", {**facts, "version": 1})
        rows = {}
        for metric, entry in benchmarks.items():
            columns = _row(commit, metric, entry, labels)
            if columns is not None:
                rows[entry["name"]] = columns
        content = {
            "commit_hash": commit.commit,
            "date": milliseconds(commit.committed_at),
            "durations": {},
            "env_name": ENVIRONMENT,
            "env_vars": {},
            "params": facts,
            "python": "",
            "requirements": {},
            "result_columns": list(_COLUMNS),
            "results": rows,
            "version": 2,
        }
        _dump(machine / f"{commit.commit[:8]}-{ENVIRONMENT}.json", content)


def _row(
    commit: _Commit, metric: str, entry: dict[str, Any], labels: dict[str, str]
) -> list[Any] | None:
    """One benchmark's columns at one commit, its cells in the order of the parameter."""
    by_label = {repr(labels[h]): cell for (m, h), cell in commit.cells.items() if m == metric}
    if not by_label:
        return None
    ordered = [by_label.get(known, {}) for known in entry["params"][0]]
    columns: dict[str, Any] = {c: [cell.get(c) for cell in ordered] for c in _LIST_COLUMNS}
    columns["params"] = entry["params"]
    columns["version"] = VERSION
    columns["started_at"] = max(cell["started_at"] for cell in by_label.values())
    return [columns.get(column) for column in _COLUMNS]


def _machine(hardware: HardwareRow) -> dict[str, str]:
    """What identifies the device, and nothing that an update changes."""
    slug = re.sub(r"[^a-z0-9]+", "-", hardware.name.lower()).strip("-") or hardware.kind
    facts = {
        "arch": hardware.arch,
        "cpu": hardware.cpu,
        "machine": f"{slug}-{hardware.identity_hash[:6]}",
        "num_cpu": str(hardware.count),
        "os": "",
        "ram": str(hardware.memory_bytes),
    }
    return facts | ({"gpu": hardware.name} if hardware.kind == "cuda" else {})


def _dump(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, allow_nan=False, indent=1) + "\n", encoding="utf-8")
