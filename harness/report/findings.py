"""What a sweep shows, in sentences with numbers, and what a reader must know beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.results import Result
from harness.analysis.slopes import Slope, SlopeGroup
from harness.analysis.state import FORMULA, StateRow
from harness.report import units


@dataclass(frozen=True)
class Grid:
    """A small table of text: the first column to the left, the others to the right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def slope_grid(group: SlopeGroup, baseline: str) -> Grid:
    """Growth of the time per token with the sequence, for all stacks at one batch."""
    at = group.conditions
    extra = f"{at.backend}, {at.dtype}, {at.threads} thread{'s' if at.threads > 1 else ''}"
    base = next((s for s in group.slopes if s.stack == baseline), None)
    return Grid(
        title=f"Growth of the time per token with the sequence length, batch {at.workload.batch}",
        header=(
            "stack",
            f"at {min(s.lengths[0] for s in group.slopes):,.0f}",
            "per 1,000 tokens more",
            "relative",
            f"/ {baseline}'s",
        ),
        rows=tuple(_slope_row(slope, base) for slope in group.slopes),
        note=f"{extra}; least squares over processes, 95 % t interval on the slope",
    )


def _slope_row(slope: Slope, base: Slope | None) -> tuple[str, ...]:
    line = slope.line
    low, high = (None if s is None else s * 1000 for s in (line.slope_low, line.slope_high))
    times = units.NOTHING
    # A baseline whose growth cannot be told from none is no measure of another's.
    if base is not None and base is not slope and (base.line.slope_low or 0.0) > 0:
        times = f"{units.digits(line.slope / base.line.slope)}x"
    return (
        slope.stack,
        units.duration(slope.level_ns),
        units.duration_interval(slope.per_thousand_ns, low, high),
        units.share(slope.growth) + (", near flat" if slope.near_flat else ""),
        "baseline" if base is slope else times,
    )


def step_grid(results: Sequence[Result]) -> Grid | None:
    """Growth of the step gap inside each run; None where no run has the samples for it."""
    rows = []
    for result in results:
        growth = result.step_growth
        # One process's slope over a few dozen positions is noise, and cannot say how much.
        if growth is not None and growth.n_processes > 1:
            low, high = (None if b is None else b * 1000 for b in (growth.ci_low, growth.ci_high))
            text = units.duration_interval(growth.per_token_ns * 1000, low, high)
            rows.append((result.case.title, text, str(growth.n_processes)))
    if not rows:
        return None
    return Grid(
        title="Growth of the step gap with the position inside one run",
        header=("case", "per 1,000 tokens more", "processes"),
        rows=tuple(rows),
        note="least squares over the positions of one run, 95 % t interval over processes; over "
        "few new tokens it is wide",
    )


def state_grid(rows: Sequence[StateRow]) -> Grid | None:
    """State measured and by the formula, case by case; None where none was measured."""
    if not rows:
        return None
    return Grid(
        title=f"State bytes read off the tensors, beside {FORMULA}",
        header=("case", "measured", "formula", "equal", "baseline / this"),
        rows=tuple(
            (
                row.result.case.title,
                f"{row.measured_bytes:,}",
                units.NOTHING if row.formula_bytes is None else f"{row.formula_bytes:,}",
                "not compared" if row.agrees is None else "yes" if row.agrees else "NO",
                units.NOTHING if row.cut is None else f"{row.cut:.2f}x",
            )
            for row in rows
        ),
        note="; ".join(dict.fromkeys(f"not compared: {row.reason}" for row in rows if row.reason)),
    )


def state_sentences(rows: Sequence[StateRow]) -> list[str]:
    """State against the formula over all cases, each disagreement by name, and the cuts."""
    compared = [row for row in rows if row.formula_bytes is not None]
    sentences = []
    wrong = [row for row in compared if not row.agrees]
    if compared and not wrong:
        sentences.append(
            f"State bytes equal {FORMULA} to the byte in all {len(compared)} cases compared."
        )
    for row in wrong:
        sentences.append(
            f"State of {row.result.case.title} is {row.measured_bytes:,} bytes; "
            f"{FORMULA} gives {row.formula_bytes:,}."
        )
    cuts: dict[str, list[float]] = {}
    for row in rows:
        if row.cut is not None and abs(row.cut - 1) > 1e-9:
            cuts.setdefault(row.result.case.label, []).append(row.cut)
    for stack, found in cuts.items():
        low, high = min(found), max(found)
        much = units.digits(low) if high - low < 0.005 * low else (
            f"{units.digits(low)} to {units.digits(high)}"
        )  # fmt: skip
        sentences.append(f"{stack} holds {much} times less state than the baseline.")
    return sentences
