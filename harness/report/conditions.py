"""Under which conditions a sweep's numbers hold: printed above every table, never left out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from harness.analysis.ratios import family
from harness.analysis.results import Result
from harness.errors import HarnessError
from harness.report import units
from harness.stack import parse
from harness.store.rows import SweepRow


@dataclass(frozen=True)
class Outline:
    """What a report needs of the suite's text, as far as it can be read."""

    about: str
    stacks: tuple[str, ...]  # labels in the suite's order
    baseline: str | None
    rounds: int | None


def outline(suite_text: str) -> Outline:
    """The suite's own order and baseline. A stored text is never an error: it may be of any age."""
    try:
        content = yaml.safe_load(suite_text)
    except yaml.YAMLError:
        content = None
    suite: dict[str, Any] = content if isinstance(content, dict) else {}
    stacks = suite.get("stacks")
    labels = [_label(stack) for stack in (stacks if isinstance(stacks, list) else [stacks])]
    measure = suite.get("measure")
    rounds = measure.get("rounds") if isinstance(measure, dict) else None
    baseline = suite.get("baseline")
    return Outline(
        about=str(suite.get("about") or ""),
        stacks=tuple(label for label in labels if label),
        baseline=_label(baseline) or None,
        rounds=rounds if isinstance(rounds, int) else None,
    )


def _label(stack: Any) -> str:
    """The label a stack has in the results; its text where it cannot be read any more."""
    if not isinstance(stack, str | dict):
        return ""
    try:
        return parse(stack).label
    except HarnessError:
        return stack if isinstance(stack, str) else str(stack.get("name", ""))


def conditions(sweep: SweepRow, results: Sequence[Result]) -> list[tuple[str, str]]:
    """Name and value of everything that was the same for the whole sweep, for a head of a table."""
    pairs = [
        ("suite", f"{sweep.suite} ({sweep.suite_hash[:12]}), sweep {sweep.id}, {sweep.status}"),
        ("measured", _when(sweep)),
        ("hardware", _hardware(sweep)),
        ("versions", _versions(sweep)),
        ("code", _code(sweep)),
        ("cases", _shared(results)),
        ("rounds", _rounds(results)),
        ("seed", str(sweep.seed)),
        ("command", f"harness {shlex.join(sweep.argv)}" if sweep.argv else "not recorded"),
    ]
    if sweep.environment.power_limit_w is not None:
        pairs.insert(3, ("power", f"limit {sweep.environment.power_limit_w:g} W"))
    return [(name, value) for name, value in pairs if value]


def varying(results: Sequence[Result]) -> tuple[str, ...]:
    """The conditions besides the workload that differ between results: named at each point."""
    return tuple(name for name, values in _values(results).items() if len(values) > 1)


def named(result: Result, names: Sequence[str]) -> str:
    """These conditions of one result, "triton, bfloat16, 2 threads"."""
    mine = _values([result])
    return ", ".join(mine[name][0] for name in names)


def _values(results: Sequence[Result]) -> dict[str, list[str]]:
    """Distinct values, in words, of each condition besides the workload."""
    described: dict[str, list[str]] = {}
    for result in results:
        case = result.case
        words = {
            "model": family(case),
            "backend": case.backend,
            "dtype": case.dtype,
            "threads": f"{case.threads} thread{'s' if case.threads > 1 else ''}",
            "graph": "CUDA graph" if case.cuda_graph else "no CUDA graph",
            "cache state": f"{case.cache_state} cache",
            "source": result.source,
        }
        for name, word in words.items():
            seen = described.setdefault(name, [])
            if word not in seen:
                seen.append(word)
    return described


def _shared(results: Sequence[Result]) -> str:
    values = _values(results)
    parts = [
        found[0] if len(found) == 1 else f"{name} {' | '.join(found)}"
        for name, found in values.items()
        if name != "graph" or found != ["no CUDA graph"]
    ]
    return ", ".join(parts)


def _when(sweep: SweepRow) -> str:
    start = f"{sweep.started_at:%Y-%m-%d %H:%M} UTC"
    if sweep.ended_at is None:
        return f"{start}, no end recorded"
    seconds = round((sweep.ended_at - sweep.started_at).total_seconds())
    return f"{start}, {seconds // 60} min {seconds % 60} s, {sweep.runs} runs"


def _hardware(sweep: SweepRow) -> str:
    hardware = sweep.hardware
    of = f"{hardware.count} cores" if hardware.kind == "cpu" else f"{hardware.count} x"
    text = f"{hardware.name} ({hardware.arch}), {of}, {units.size(hardware.memory_bytes)}"
    return text if hardware.kind == "cpu" else f"{text}, host {hardware.cpu}"


def _versions(sweep: SweepRow) -> str:
    e = sweep.environment
    known = {"torch": e.torch, "triton": e.triton, "CUDA": e.cuda, "driver": e.driver}
    parts = [f"{name} {version}" for name, version in known.items() if version]
    return ", ".join([*parts, f"Python {e.python}", e.os])


def _code(sweep: SweepRow) -> str:
    revision = sweep.revision
    if revision is None:
        return "not a git checkout: the code that was measured is not known"
    branch = f" on {revision.branch}" if revision.branch else ""
    dirty = " with uncommitted changes" if revision.dirty else ""
    return f"{revision.commit[:12]}{branch}{dirty}"


def _rounds(results: Sequence[Result]) -> str:
    counts = sorted({r.rounds for r in results if r.status == "ok"})
    if not counts:
        return "no case was measured"
    most = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts[-1] == 1:
        return "1 process a case, so no intervals; set measure.rounds to 3 or more"
    return f"{most} processes a case; intervals are 95 % over processes"
