"""What an interrupted training needs to go on: one safetensors file, its state as JSON inside.

Its name ends in `.checkpoint`, so that no package built from a checkout carries it along.
"""

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from harness.errors import UsageError
from harness.records import Record

# Name of the one metadata entry that holds the state.
KEY = "training"


class Point(Record):
    """The held-out loss on the way, and the mean training loss since the point before."""

    step: int
    train_loss: float
    held_out_loss: float
    accuracy: float | None = None  # of a task's held-out questions


class Progress(Record):
    """How far a training has come, beside its tensors."""

    model: str
    recipe: (
        str  # hash of table row, corpus and tokenizer: a checkpoint of another recipe is refused
    )
    step: int  # steps done
    cpu_seconds: float
    loss_sum: float  # training loss summed since the last point of the curve
    loss_count: int
    curve: tuple[Point, ...]


def save(path: Path, progress: Progress, tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint so that a kill at any moment leaves the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".fresh")
    save_file(tensors, fresh, metadata={KEY: progress.model_dump_json()})
    fresh.replace(path)


def load(path: Path, recipe: str) -> tuple[Progress, dict[str, Tensor]]:
    """Read a checkpoint; UsageError where it cannot be read or belongs to another recipe."""
    try:
        with safe_open(path, framework="pt") as file:
            progress = Progress.model_validate_json((file.metadata() or {}).get(KEY, ""))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, ValueError) as error:
        raise UsageError(
            f"the checkpoint '{path}' cannot be read ({error}); train without --resume"
        ) from error
    if progress.recipe != recipe:
        raise UsageError(
            f"the checkpoint '{path}' was written by another recipe (table row, corpus or "
            "tokenizer differ); train without --resume"
        )
    return progress, tensors
