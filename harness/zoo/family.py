"""Architectures of equal parameters, data and steps: their differences beside the seeds' spread."""

import statistics
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.zoo import card, export, rows

# The family's members are `equal<seed>-<architecture>`; all are compared with this architecture.
PREFIX = "equal"
BASELINE = "mha"
# Student's t of 95 % two-sided confidence by degrees of freedom, as printed in any table of it.
T_95 = {2: 4.303, 4: 2.776, 6: 2.447, 8: 2.306, 10: 2.228}


@dataclass(frozen=True)
class Difference:
    """Means over seeds of two architectures' held-out losses, one less the other, in nats."""

    value: float
    spread: float  # half the 95 % interval that the seeds alone give

    @property
    def verdict(self) -> str:
        """What may be said of it: a difference within the seeds' spread is none."""
        if abs(self.value) <= self.spread:
            return "none"
        return "better" if self.value < 0 else "worse"


def difference(losses: list[float], baseline: list[float]) -> Difference:
    """Compare as many seeds of two architectures: pooled two-sample t interval.

    Raises UsageError for less than two seeds, or not the same number of both.
    """
    count = len(losses)
    if count < 2 or count != len(baseline) or 2 * count - 2 not in T_95:
        raise UsageError(
            f"a difference needs 2 to 6 seeds, the same number of both architectures; "
            f"there are {count} and {len(baseline)}"
        )
    pooled = (statistics.variance(losses) + statistics.variance(baseline)) / 2
    spread = T_95[2 * count - 2] * (2 * pooled / count) ** 0.5
    return Difference(statistics.mean(losses) - statistics.mean(baseline), spread)


def losses(models: Path = export.MODELS) -> dict[str, list[float]]:
    """Held-out loss on short windows by architecture, one number a seed."""
    found: dict[str, list[float]] = {}
    for entry in rows.TABLE:
        if entry.name.startswith(PREFIX):
            architecture = entry.name.split("-", 1)[1]
            loss = card.read(models / entry.name).held_out[0].loss
            found.setdefault(architecture, []).append(loss)
    return found


def render(models: Path = export.MODELS) -> str:
    """The family as a Markdown table, with the slots that wait below it."""
    found = losses(models)
    lines = ["| architecture | held-out nats by seed | mean | seed spread (sd) | against "]
    lines[0] += f"{BASELINE} (95 %) | difference |"
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for architecture, values in found.items():
        cells = [
            architecture,
            ", ".join(f"{value:.4f}" for value in values),
            f"{statistics.mean(values):.4f}",
            f"{statistics.stdev(values):.4f}",
        ]
        if architecture == BASELINE:
            cells += ["", "baseline"]
        else:
            told = difference(values, found[BASELINE])
            cells += [f"{told.value:+.4f} +-{told.spread:.4f}", told.verdict]
        lines.append("| " + " | ".join(cells) + " |")
    waiting = [slot for slot in rows.SLOTS if slot.name.startswith(PREFIX)]
    for slot in waiting:
        lines.append(
            f"| {slot.name.split('-', 1)[1]} | | | | | cannot be trained yet: {slot.reason} |"
        )
    return "\n".join(lines)
