"""Architectures of equal parameters, data and steps: their differences beside the seeds' spread."""

import statistics
from pathlib import Path

from harness.zoo import card, export, rows
from harness.zoo.seeds import Difference, difference

# The family's members are `equal<seed>-<architecture>`; all are compared with this architecture.
PREFIX = "equal"
BASELINE = "mha"


def verdict(told: Difference) -> str:
    """What may be said of a difference in loss."""
    if not told.told:
        return "none"
    return "better" if told.value < 0 else "worse"


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
            cells += [f"{told.value:+.4f} +-{told.spread:.4f}", verdict(told)]
        lines.append("| " + " | ".join(cells) + " |")
    waiting = [slot for slot in rows.SLOTS if slot.name.startswith(PREFIX)]
    for slot in waiting:
        lines.append(
            f"| {slot.name.split('-', 1)[1]} | | | | | cannot be trained yet: {slot.reason} |"
        )
    return "\n".join(lines)
