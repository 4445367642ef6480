"""How the step gap grows with the position inside one run: lecture section 3 without a second case.

Every process gives one slope; the interval is over processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.analysis.intervals import fit_line, mean
from harness.run import RunRecord
from harness.suite.case import Case

# Fewer positions than this say nothing: the growth over them is far below the noise of a step.
FEWEST_POSITIONS = 16


@dataclass(frozen=True)
class StepGrowth:
    """Growth of the step gap a position, over processes; bounds are None for one process."""

    per_token_ns: float
    ci_low: float | None
    ci_high: float | None
    n_processes: int


def step_growth(case: Case, records: Sequence[RunRecord]) -> StepGrowth | None:
    """The growth over the ok runs of a case; None where their samples have no positions."""
    found = [slope for record in records if (slope := _slope(case, record)) is not None]
    if not found:
        return None
    if len(found) == 1:
        return StepGrowth(found[0], None, None, 1)
    over = mean(found)
    return StepGrowth(over.value, over.low, over.high, len(found))


def _slope(case: Case, record: RunRecord) -> float | None:
    """Least squares over the positions of one run, through the median of each one's repetitions."""
    positions = case.generated.new_tokens - 1
    gaps = next((s.values for s in record.samples if s.metric == "step_gap"), [])
    tokens = next((m.value for m in record.metrics if m.name == "tokens_per_step"), 1.0)
    # Repetitions stand one behind the other. With several tokens a step, or with requests that do
    # not step together, a gap's place in the list is no position.
    if positions < FEWEST_POSITIONS or tokens != 1.0 or not gaps or len(gaps) % positions:
        return None
    middle = [median(gaps[position::positions]) for position in range(positions)]
    return fit_line([float(x) for x in range(positions)], middle).slope
