"""The figures of a trained model as a record: what was trained, how, and what came out."""

import hashlib
import platform
from dataclasses import asdict
from pathlib import Path

import tokenizers
import torch

from harness.records import Record
from harness.zoo import checkpoint, corpus, evaluate, network, stream
from harness.zoo.table import Entry

# The file beside the weights that holds the record.
NAME = "card.json"
LICENCE = "Apache-2.0 (weights); the corpus is in the public domain"


class Losses(Record):
    """Held-out losses of windows of one length."""

    window: int
    windows: int
    loss: float  # nats a token
    bits_per_byte: float
    by_position: dict[str, float]  # "start-end": nats a token


class Card(Record):
    """One trained model in figures. Losses are in nats a token."""

    model: str
    summary: str
    architecture: dict[str, int | float | tuple[str, ...]]
    budget: dict[str, int | float | str]
    parameters: int
    steps: int
    tokens: int
    epochs: float
    cpu_seconds: float
    train_loss: float  # mean over the last stretch of the curve
    held_out: tuple[Losses, ...]
    unigram: float
    bigram: float
    curve: tuple[checkpoint.Point, ...]
    corpus_sha256: str
    tokenizer_sha256: str
    weights_sha256: str
    torch: str
    cpu: str
    licence: str = LICENCE

    @property
    def finished(self) -> bool:
        """Whether the whole budget was spent; else this is a snapshot on the way."""
        return self.steps == self.budget["steps"]


def make(
    entry: Entry,
    net: network.Network,
    progress: checkpoint.Progress,
    novels: list[corpus.Novel],
    tokenizer: tokenizers.Tokenizer,
    folder: Path,
) -> Card:
    """Judge a network that `export.write` has put into `folder`."""
    train = stream.training_tokens(novels, tokenizer)
    held_out = []
    for length in (entry.budget.short, entry.budget.long):
        windows, text_bytes = stream.held_out_windows(novels, tokenizer, length)
        judged = evaluate.held_out(net, windows)
        bits = evaluate.bits_per_byte(judged.loss, windows[:, 1:].numel(), text_bytes)
        held_out.append(
            Losses(
                window=length,
                windows=len(windows),
                loss=judged.loss,
                bits_per_byte=bits,
                by_position=evaluate.bands(judged.by_position),
            )
        )
    windows, _ = stream.held_out_windows(novels, tokenizer, entry.budget.short)
    unigram, bigram = evaluate.counting_bars(train, windows, entry.architecture.vocab)
    tokens = progress.step * entry.budget.step_tokens
    pending = progress.loss_sum / progress.loss_count if progress.loss_count else None
    return Card(
        model=entry.name,
        summary=entry.summary,
        architecture=asdict(entry.architecture),
        budget=asdict(entry.budget),
        parameters=sum(weight.numel() for weight in net.parameters()),
        steps=progress.step,
        tokens=tokens,
        epochs=tokens / len(train),
        cpu_seconds=progress.cpu_seconds,
        train_loss=progress.curve[-1].train_loss if pending is None else pending,
        held_out=tuple(held_out),
        unigram=unigram,
        bigram=bigram,
        curve=progress.curve,
        corpus_sha256=corpus.digest(novels),
        tokenizer_sha256=file_sha256(folder / "tokenizer.json"),
        weights_sha256=file_sha256(folder / "model.safetensors"),
        torch=torch.__version__,
        cpu=f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, 1 thread",
    )


def write(folder: Path, card: Card) -> None:
    """Write the record into a model's folder."""
    (folder / NAME).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read(folder: Path) -> Card:
    """The record of a model's folder."""
    return Card.model_validate_json((folder / NAME).read_text(encoding="utf-8"))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
