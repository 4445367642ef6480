"""The table as people read it: every model with its budget, its cost and what came out."""

from pathlib import Path

from harness.errors import UsageError
from harness.zoo import card, export, rows
from harness.zoo.table import Entry

# All committed weights together, and all trainings together.
BYTES = 60_000_000
CPU_HOURS = 4.0

HEAD = ("model", "parameters", "tokens", "steps", "CPU-s", "MB", "held out", "what it is")


def render(models: Path = export.MODELS) -> str:
    """One line a model, one a slot that waits for its architecture, and the sums."""
    lines = [HEAD, *(_line(entry, models / entry.name) for entry in rows.TABLE)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD) - 1)]
    told = ["  ".join([*_aligned(line, widths), line[-1]]) for line in lines]
    told += [f"{slot.name}: cannot be trained yet, {slot.reason}" for slot in rows.SLOTS]
    seconds, by_cpu, weights = cost(models)
    told.append("")
    told.append(
        f"all: {seconds:,.0f} CPU-s = {seconds / 3600:.2f} CPU-hours of {CPU_HOURS:g}, "
        f"{weights / 1e6:.1f} of {BYTES / 1e6:g} MB"
    )
    told += [f"  on {cpu}: {spent:,.0f} CPU-s" for cpu, spent in by_cpu.items()]
    return "\n".join(told)


def cost(models: Path = export.MODELS) -> tuple[float, dict[str, float], int]:
    """CPU-seconds of all trained models, the same by CPU, and the bytes of their weights."""
    by_cpu: dict[str, float] = {}
    weights = 0
    for entry in rows.TABLE:
        try:
            made = card.read_any(models / entry.name)
        except UsageError:
            continue
        by_cpu[made.cpu] = by_cpu.get(made.cpu, 0.0) + made.cpu_seconds
        weights += export.weights_file(models / entry.name).stat().st_size
    return sum(by_cpu.values()), by_cpu, weights


def _line(entry: Entry, folder: Path) -> tuple[str, ...]:
    budget = (f"{entry.budget.tokens:,}", f"{entry.budget.steps:,}")
    try:
        made = card.read_any(folder)
    except UsageError:
        return (entry.name, "", *budget, "", "", "not trained", entry.summary)
    if isinstance(made, card.TaskCard):
        outcome = f"{list(made.accuracy.values())[-1]:.3f} right"
    else:
        outcome = f"{made.held_out[0].loss:.3f} nats"
    size = export.weights_file(folder).stat().st_size / 1e6
    return (
        entry.name,
        f"{made.parameters:,}",
        *budget,
        f"{made.cpu_seconds:,.0f}",
        f"{size:.2f}",
        outcome,
        entry.summary,
    )


def _aligned(line: tuple[str, ...], widths: list[int]) -> list[str]:
    name, *numbers = line[:-1]
    cells = zip(numbers, widths[1:], strict=True)
    return [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in cells)]
