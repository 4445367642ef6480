"""Under which conditions a sweep's numbers hold: printed above every table, never left out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.analysis.ratios import family
from harness.analysis.results import Result
from harness.errors import HarnessError
from harness.hardware.ceilings import Ceilings
from harness.report import units
from harness.store.rows import SweepRow
from harness.suite.points import QualityPoint
from harness.sweep.resume import SESSION


@dataclass(frozen=True)
class Outline:
    """What a report needs of the suite; empty where the stored text cannot be read any more."""

    about: str = ""
    stacks: tuple[str, ...] = ()  # labels in the suite's order
    baseline: str | None = None
    rounds: int | None = None


def outline(sweep: SweepRow) -> Outline:
    """The suite's own order and baseline, with its profile and what `--set` changed.

    Never an error: a stored text may be older than the techniques and keys of today.
    """
    # What is read is what planning reads; imported here, as a report of a run needs none of it.
    from harness.suite.document import read
    from harness.suite.grid import grid
    from harness.suite.kernels import KernelWorkload
    from harness.suite.schema import Suite
    from harness.suite.settings import override, with_profile

    try:
        suite = Suite.of(read(sweep.suite_text, sweep.suite))
        suite = override(suite, _given(sweep.argv, "--set"))
        forced = _given(sweep.argv, "--profile")
        on_gpu = "cuda" in forced or (not forced and sweep.hardware.kind == "cuda")
        suite = with_profile(suite, "cuda" if on_gpu else "cpu")
        if isinstance(suite.workload, KernelWorkload):
            return Outline(suite.about, rounds=suite.measure.rounds)
        built = grid(suite)
    except HarnessError:
        return Outline()
    return Outline(suite.about, tuple(built.stacks), built.baseline, suite.measure.rounds)


def _given(argv: Sequence[str], option: str) -> list[str]:
    """The values of an option that may be repeated, as `--set a=1` or `--set=a=1`."""
    after = [value for flag, value in pairwise(argv) if flag == option]
    joined = [a.removeprefix(f"{option}=") for a in argv if a.startswith(f"{option}=")]
    return [*after, *joined]


def conditions(sweep: SweepRow, results: Sequence[Result]) -> list[tuple[str, str]]:
    """Name and value of everything that was the same for the whole sweep, for a head of a table."""
    pairs = [
        ("suite", f"{sweep.suite} ({sweep.suite_hash[:12]}), sweep {sweep.id}, {sweep.status}"),
        ("measured", when(sweep)),
        ("hardware", hardware(sweep)),
        ("limits", _in_force(sweep, results)),
        ("versions", versions(sweep)),
        ("code", code(sweep)),
        ("cases", _shared(results)),
        ("rounds", _rounds(results)),
        ("seed", str(sweep.seed)),
        ("command", _command(sweep)),
    ]
    if sweep.environment.power_limit_w is not None:
        pairs.insert(3, ("power", f"limit {sweep.environment.power_limit_w:g} W"))
    return [(name, value) for name, value in pairs if value]


def _in_force(sweep: SweepRow, results: Sequence[Result]) -> str:
    """What this sweep's fractions are fractions of, by threads; "" where it was not recorded."""
    found = {} if sweep.ceilings is None else sweep.ceilings.measured
    dtypes = list(dict.fromkeys(r.case.dtype for r in results if r.source == "measured"))
    told = [
        f"{limits(each, dtypes)}, {threads} thread{'s' * (threads > 1)}"
        if sweep.hardware.kind == "cpu"
        else limits(each, dtypes)
        for threads, each in sorted(found.items())
    ]
    return "; ".join(told) if dtypes else ""


def limits(ceilings: Ceilings, dtypes: Sequence[str]) -> str:
    """A device's limits in these dtypes, and where they are from."""
    peaks = {dtype: ceilings.flops_per_s.get(dtype) for dtype in dtypes}
    parts = [
        f"memory {units.value('achieved_bandwidth', ceilings.bandwidth_bytes_per_s)}",
        *(f"{d} {units.value('achieved_flops', peak)}" for d, peak in peaks.items() if peak),
        ceilings.source,
    ]
    return ", ".join(parts)


def _command(sweep: SweepRow) -> str:
    """The command line; the mark of a comparison's session is none of it."""
    argv = sweep.argv[: sweep.argv.index(SESSION)] if SESSION in sweep.argv else sweep.argv
    return f"harness {shlex.join(argv)}" if argv else "not recorded"


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
            "model": family(case) or "no model",
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
        found[0] if len(found) == 1 else f"{name} {' | '.join(sorted(found))}"
        for name, found in values.items()
        if name != "graph" or found != ["no CUDA graph"]
    ]
    return ", ".join(parts)


def when(sweep: SweepRow) -> str:
    """When a sweep ran and how long."""
    start = f"{sweep.started_at:%Y-%m-%d %H:%M} UTC"
    if sweep.ended_at is None:
        return f"{start}, no end recorded"
    seconds = round((sweep.ended_at - sweep.started_at).total_seconds())
    return f"{start}, {seconds // 60} min {seconds % 60} s, {sweep.runs} runs"


def hardware(sweep: SweepRow) -> str:
    """The device, and of a GPU its host."""
    h = sweep.hardware
    of = f"{h.count} core{'s' * (h.count != 1)}" if h.kind == "cpu" else f"{h.count} x"
    text = f"{h.name} ({h.arch}), {of}, {units.size(h.memory_bytes)}"
    return text if h.kind == "cpu" else f"{text}, host {h.cpu}"


def versions(sweep: SweepRow) -> str:
    """What a sweep ran with."""
    e = sweep.environment
    known = {"torch": e.torch, "triton": e.triton, "CUDA": e.cuda, "driver": e.driver}
    parts = [f"{name} {version}" for name, version in known.items() if version]
    return ", ".join([*parts, f"Python {e.python}", e.os])


def code(sweep: SweepRow) -> str:
    """The revision that a sweep measured."""
    revision = sweep.revision
    if revision is None:
        return "not a git checkout: the code that was measured is not known"
    branch = f" on {revision.branch}" if revision.branch else ""
    dirty = " with uncommitted changes" if revision.dirty else ""
    return f"{revision.commit[:12]}{branch}{dirty}"


def _rounds(results: Sequence[Result]) -> str:
    good = [r for r in results if r.status == "ok"]
    counts = sorted({r.rounds for r in good})
    if not counts:
        return "no case was measured"
    if all(isinstance(r.case.workload, QualityPoint) for r in good):
        return "nothing is timed and every process computes the same; intervals are 95 % over texts"
    most = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts[-1] == 1:
        return "1 process a case, so no intervals; set measure.rounds to 3 or more"
    return f"{most} processes a case; intervals are 95 % over processes"
