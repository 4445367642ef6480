"""The figures of a trained model as a record: what was trained, how, and what came out."""

import hashlib
import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from harness.errors import UsageError
from harness.records import Record
from harness.zoo import checkpoint, network
from harness.zoo.pair import Pair
from harness.zoo.table import Entry

# The file beside the weights that holds the record.
NAME = "card.json"
LICENCE = "Apache-2.0 (weights); the corpus is in the public domain"
TASK_LICENCE = "Apache-2.0 (weights); the data are drawn from a seed"


class Losses(Record):
    """Held-out losses of windows of one length."""

    window: int
    windows: int
    loss: float  # nats a token
    bits_per_byte: float
    by_position: dict[str, float]  # "start-end": nats a token


class Made(Record):
    """What every trained model tells: how it was made, and of what its files are."""

    model: str
    summary: str
    architecture: dict[str, int | float | tuple[str, ...]]
    budget: dict[str, int | float | str]
    parameters: int
    steps: int
    tokens: int
    cpu_seconds: float
    train_loss: float  # mean over the last stretch of the curve
    curve: tuple[checkpoint.Point, ...]
    weights_sha256: str
    torch: str
    cpu: str
    storage: str = "float32"

    @property
    def finished(self) -> bool:
        """Whether the whole budget was spent; else this is a snapshot on the way."""
        return self.steps == self.budget["steps"]


class Card(Made):
    """A model of text in figures. Losses are in nats a token."""

    epochs: float
    held_out: tuple[Losses, ...]
    by_context: dict[str, float] | None = None  # tokens told before: loss of the same tokens
    unigram: float
    bigram: float
    corpus_sha256: str
    tokenizer_sha256: str
    licence: str = LICENCE
    start: str | None = None  # the model it began from
    teacher: str | None = None  # the model it learned from
    kl_weight: float | None = None  # share of the teacher's divergence in the loss
    rounding: float | None = None  # held-out loss added by `storage`, where that is no float32
    pair: Pair | None = None  # beside its teacher


class TaskCard(Made):
    """A model of a task in figures: the share of held-out questions it answers right."""

    task: dict[str, int | str]
    accuracy: dict[str, float]  # by what was asked: "16 pairs", "distance 64"
    chance: float  # of guessing among all values
    licence: str = TASK_LICENCE


def common(
    entry: Entry, net: network.Network, progress: checkpoint.Progress, folder: Path
) -> dict[str, Any]:
    """The fields of `Made` for a network that `export.write` has put into `folder`."""
    pending = progress.loss_sum / progress.loss_count if progress.loss_count else None
    return {
        "model": entry.name,
        "summary": entry.summary,
        "architecture": asdict(entry.architecture),
        "budget": asdict(entry.budget),
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "steps": progress.step,
        "tokens": progress.step * entry.budget.step_tokens,
        "cpu_seconds": progress.cpu_seconds,
        "train_loss": progress.curve[-1].train_loss if pending is None else pending,
        "curve": progress.curve,
        "weights_sha256": file_sha256(folder / "model.safetensors"),
        "torch": torch.__version__,
        "cpu": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, 1 thread",
        "storage": entry.storage,
    }


def write(folder: Path, card: Made) -> None:
    """Write the record into a model's folder."""
    text = card.model_dump_json(indent=2, exclude_none=True)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> Card:
    """The record of a folder whose model learned text."""
    return Card.model_validate_json(_text(folder))


def read_any(folder: Path) -> Card | TaskCard:
    """The record of a model's folder; UsageError where there is none."""
    text = _text(folder)
    kind = TaskCard if "task" in json.loads(text) else Card
    return kind.model_validate_json(text)


def _text(folder: Path) -> str:
    path = folder / NAME
    if not path.is_file():
        raise UsageError(f"no card at '{path}'; `python -m harness.zoo train` writes one")
    return path.read_text(encoding="utf-8")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
