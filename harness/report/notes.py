"""What a reader must know beside the numbers: what was left out or switched off, what went badly.

Each note says what it may mean and what to try.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.results import Result
from harness.store.rows import SweepRow

# Below this share of its threads' time a run visibly waited for cores.
_BUSY = 0.9


def notes(sweep: SweepRow, results: Sequence[Result], planned_rounds: int | None) -> list[str]:
    """Every note that applies to a sweep."""
    good = [result for result in results if result.status == "ok"]
    told = [
        _unfinished(sweep),
        _few_rounds(good, planned_rounds),
        _imprecise(good),
        _unsteady(good),
        _late(good),
        _refused(good),
        _waited(good),
        _disturbed(good),
        _switched_off(results),
        _ungated(good),
        _fell_back(good),
        _enlarged(good),
        _told_again(good),
        _dirty(sweep),
    ]
    return [note for note in told if note is not None]


def _unfinished(sweep: SweepRow) -> str | None:
    if sweep.status == "complete":
        return None
    again = shlex.join(a for a in sweep.argv if a != "--resume") or "sweep SUITE"
    return (
        f"The sweep is {sweep.status}: cases or rounds are missing. "
        f"Continue it with: harness {again} --resume"
    )


def _few_rounds(good: Sequence[Result], planned: int | None) -> str | None:
    short = [r for r in good if planned is not None and r.rounds < planned]
    if not short:
        return None
    return (
        f"{_of(short, good)} have fewer than the {planned} rounds that the suite asks for: their "
        "intervals are wider or missing."
    )


def _imprecise(good: Sequence[Result]) -> str | None:
    """Runs whose time, or whose unused prompts, ended before the precision was reached."""
    worst: dict[str, float | None] = {}
    wanted = 0.0
    for result in good:
        for said in _noted(result, "sampling", Mapping):
            reached, asked = said.get("precision"), said.get("precision_wanted")
            if said.get("stopped") == "precision" or not isinstance(asked, float):
                continue
            if reached is None or reached > asked:
                wanted = asked
                known = worst.get(result.case.title, 0.0)
                unknown = reached is None or known is None
                worst[result.case.title] = None if unknown else max(known or 0.0, reached)
    if not worst:
        return None
    title, most = max(worst.items(), key=lambda item: float("inf") if item[1] is None else item[1])
    reached = "too few samples to say" if most is None else f"+-{100 * most:.1f}%"
    return (
        f"In {len(worst)} of {len(good)} cases sampling ended before the precision of "
        f"+-{100 * wanted:g}% was reached (worst: {title}, {reached}); the number stands, its "
        "interval over processes says how well. Raise measure.max_seconds to tighten it."
    )


def _unsteady(good: Sequence[Result]) -> str | None:
    cases = [
        r for r in good if any(w.get("stable") is False for w in _noted(r, "warm_up", Mapping))
    ]
    if not cases:
        return None
    return (
        f"{_of(cases, good)} were still changing speed after warm-up ({_titles(cases)}): the first "
        "samples may be too slow. Raise measure.max_seconds."
    )


def _late(good: Sequence[Result]) -> str | None:
    """Serve runs whose requests were handed in later than they could have been."""
    found = {
        result.case.title: str(said["late"])
        for result in good
        for said in _noted(result, "serve", Mapping)
        if said.get("late")
    }
    if not found:
        return None
    title, said = next(iter(found.items()))
    return (
        f"In {len(found)} of {len(good)} cases the generator of requests was late ({title}: "
        f"{said}); times count from when a request was due, so that they hold its lateness too. "
        "Measure again on a quiet machine, or with idle: skip."
    )


def _refused(good: Sequence[Result]) -> str | None:
    """Serve runs in which some requests could never have been served."""
    found = {
        result.case.title: (said["refused"][0], result.value("refused") or 0)
        for result in good
        for said in _noted(result, "serve", Mapping)
        if said.get("refused")
    }
    if not found:
        return None
    title, (reason, count) = next(iter(found.items()))
    return (
        f"In {len(found)} of {len(good)} cases requests were refused ({title}: {count:.0f} of "
        f"them; {reason}): they have no times and count in no rate. Raise max_tokens or state_mb, "
        "or lower scale."
    )


def _waited(good: Sequence[Result]) -> str | None:
    """Runs that did not get the cores they asked for."""
    shares = {
        result.case.title: min(found)
        for result in good
        if result.case.backend == "torch"
        and (found := [s for t in _noted(result, "timed", Mapping) if (s := _share(t)) is not None])
        and min(found) < _BUSY
    }
    if not shares:
        return None
    title, least = min(shares.items(), key=lambda item: item[1])
    return (
        f"{len(shares)} of {len(good)} cases had to wait for cores (least: {title} computed for "
        f"{100 * least:.0f}% of its time): something else was running, and their times are too "
        "long. Measure again on a quiet machine."
    )


def _disturbed(good: Sequence[Result]) -> str | None:
    """Runs that a sensor flagged: throttled, a device that others used, a clock that moved."""
    flagged = {
        result.case.title: str(found[0][0])
        for result in good
        if (found := [flags for flags in _noted(result, "flags", list) if flags])
    }
    if not flagged:
        return None
    title, first = next(iter(flagged.items()))
    return (
        f"Sensors flagged {len(flagged)} of {len(good)} cases ({title}: {first}). Let the device "
        "cool or its other users end, and set measure.contended to invalid to have such runs made "
        "again."
    )


def _switched_off(results: Sequence[Result]) -> str | None:
    cases: dict[str, int] = {}
    for result in results:
        off = {name for names in _noted(result, "gates_off", list) for name in names}
        for name in sorted(off):
            cases[str(name)] = cases.get(str(name), 0) + 1
    if not cases:
        return None
    listed = ", ".join(f"{name} ({count} cases)" for name, count in cases.items())
    return f"Gates switched off: {listed}. Nothing held these numbers to that check."


def _ungated(good: Sequence[Result]) -> str | None:
    bare = [result for result in good if not result.gates]
    if not bare:
        return None
    return (
        f"No correctness gate ran for {_of(bare, good)}: nothing says that their output is right."
    )


def _fell_back(good: Sequence[Result]) -> str | None:
    """Operations that ran on another backend than the case names."""
    found: dict[str, list[Result]] = {}
    for result in good:
        for operation, used in result.implementations:
            if used != result.case.backend:
                text = f"{operation} on {used} instead of {result.case.backend}"
                found.setdefault(text, []).append(result)
    if not found:
        return None
    listed = "; ".join(f"{text} ({len(cases)} cases)" for text, cases in found.items())
    return f"Operations without an implementation for the backend asked for: {listed}."


def _enlarged(good: Sequence[Result]) -> str | None:
    """Models whose shape is no published one's: their names say so, and this says what they are."""
    found = {
        result.case.model: gate.worst
        for result in good
        for gate in result.gates
        if gate.name == "inflation"
    }
    if not found:
        return None
    listed = "; ".join(f"{model} ({gate.detail})" for model, gate in found.items())
    return (
        f"Enlarged models: {listed}. What such a model says is its source's text, what it costs is "
        "its own shape's, and no published model has that shape."
    )


def _told_again(good: Sequence[Result]) -> str | None:
    """Numbers of quality that an earlier run with the same inputs computed."""
    cases = [result for result in good if _noted(result, "cached", Mapping)]
    if not cases:
        return None
    return (
        f"The quality of {_of(cases, good)} was computed before from the same inputs and is told "
        "again; remove results/quality to have it computed anew."
    )


def _dirty(sweep: SweepRow) -> str | None:
    if sweep.revision is None or not sweep.revision.dirty:
        return None
    return "The code had uncommitted changes: the commit alone does not reproduce these numbers."


def _noted(result: Result, key: str, kind: type[Any]) -> list[Any]:
    """What the runs of a result noted under a key, where it has the expected form."""
    return [t[key] for t in result.telemetry if isinstance(t.get(key), kind)]


def _share(timed: Mapping[str, Any]) -> float | None:
    share = timed.get("cpu_share")
    return float(share) if isinstance(share, int | float) else None


def _of(some: Sequence[Result], every: Sequence[Result]) -> str:
    return f"{len(some)} of {len(every)} cases"


def _titles(results: Sequence[Result], most: int = 3) -> str:
    titles = [result.case.title for result in results]
    more = f" and {len(titles) - most} more" if len(titles) > most else ""
    return ", ".join(titles[:most]) + more
