"""A model card: every figure of a training as a record, and the README rendered from it."""

import hashlib
import platform
from collections.abc import Sequence
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
    """Write the record and the README into a model's folder."""
    (folder / NAME).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(render(card), encoding="utf-8")


def read(folder: Path) -> Card:
    """The record of a model's folder."""
    return Card.model_validate_json((folder / NAME).read_text(encoding="utf-8"))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def render(card: Card) -> str:
    """The card as Markdown."""
    main = card.held_out[0]
    mark = (
        ""
        if card.finished
        else (
            f"\n**Snapshot after {card.steps} of {card.budget['steps']} steps: not the finished "
            "model.**\n"
        )
    )
    shape = card.architecture
    rows = [
        ("parameters", f"{card.parameters:,} (float32, tied embeddings)"),
        (
            "shape",
            f"L {shape['layers']}, D {shape['width']}, F {shape['ff']}, N {shape['heads']}, "
            f"K {shape['kv_heads']}, H {shape['head_dim']}, V {shape['vocab']}",
        ),
        ("positions", f"rotary, theta {shape['theta']:g}, at most {shape['max_len']}"),
        (
            "trained on",
            f"{card.tokens:,} tokens in {card.steps:,} steps ({card.epochs:.1f} epochs), windows "
            f"of {card.budget['short']} tokens, in the last {card.budget['long_share']:.0%} of the "
            f"steps of {card.budget['long']}",
        ),
        (
            "optimizer",
            f"AdamW, learning rate {card.budget['learning_rate']:g}, weight decay "
            f"{card.budget['decay']:g}, {card.budget['precision']}, seed {card.budget['seed']}",
        ),
        ("cost", f"{card.cpu_seconds:.0f} CPU-seconds, {card.cpu}, torch {card.torch}"),
        ("train loss", f"{card.train_loss:.4f} nats a token (mean of the last steps)"),
        *(
            (
                f"held-out loss, {losses.window}-token windows",
                f"{losses.loss:.4f} nats a token, {losses.bits_per_byte:.4f} bits a byte",
            )
            for losses in card.held_out
        ),
        ("bars", f"unigram {card.unigram:.4f}, bigram {card.bigram:.4f} nats a token"),
        ("licence", card.licence),
    ]
    lines = [
        f"# zoo/{card.model}",
        mark,
        f"Llama-shaped, {card.summary}. One of a family that shares",
        "tokenizer, corpus and budget; trained from scratch by `python -m harness.zoo train "
        f"{card.model}`.",
        "",
        *table(("what", "value"), rows),
    ]
    lines += ["", "Held-out loss by position of the predicting token, nats a token:", ""]
    for losses in card.held_out:
        cells = [f"{value:.3f}" for value in losses.by_position.values()]
        lines += [*table(("window", *losses.by_position), [(str(losses.window), *cells)]), ""]
    lines += [
        "The curve (held-out loss on a part of the windows; the training loss is a mean over",
        "the steps since the line before):",
        "",
    ]
    points = [(f"{p.step}", f"{p.train_loss:.4f}", f"{p.held_out_loss:.4f}") for p in card.curve]
    lines += table(("step", "train", "held out"), points)
    hashes = [
        ("corpus", card.corpus_sha256),
        ("tokenizer.json", card.tokenizer_sha256),
        ("model.safetensors", card.weights_sha256),
    ]
    lines += ["", *table(("SHA-256 of", "value"), [(n, f"`{v}`") for n, v in hashes]), ""]
    lines += [
        "Good for mechanism, ordering and exactness tests; one author's prose and one seed, so",
        f"its {main.loss:.2f} nats say nothing of language quality at large.",
        "",
    ]
    return "\n".join(lines)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A Markdown table as lines."""
    body = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(row) + " |" for row in body]
