"""Judging a trained network for its card: on held-out text, or on a task's held-out questions."""

from pathlib import Path

from harness.zoo import (
    accuracy,
    card,
    checkpoint,
    corpus,
    evaluate,
    export,
    network,
    pair,
    start,
    stream,
    tokenizer,
)
from harness.zoo.table import Entry
from harness.zoo.tasks import Recall, Task

# Every model of text is judged on windows of this length first, however long those it learned from.
SHORT = 256
# Windows on which a draft is set beside its target.
PAIR_WINDOWS = 96
# The seed of a card's questions, and what is asked wherever the task has it.
SEED = 1
PAIRS = (2, 4, 8, 16, 32)
DISTANCES = (8, 16, 32, 64, 128, 256, 512, 1000)


def text(
    entry: Entry,
    net: network.Network,
    progress: checkpoint.Progress,
    novels: list[corpus.Novel],
    folder: Path,
    models: Path,
) -> card.Card:
    """The card of a model of text, as it stands in `folder`; `net` has the weights unrounded."""
    vocabulary = tokenizer.load(entries=entry.architecture.vocab)
    written = export.read(folder, entry.architecture)
    train = stream.training_tokens(novels, vocabulary)
    held_out = []
    for length in sorted({SHORT, entry.budget.long}):
        windows, text_bytes = stream.held_out_windows(novels, vocabulary, length)
        judged = evaluate.held_out(written, windows)
        bits = evaluate.bits_per_byte(judged.loss, windows[:, 1:].numel(), text_bytes)
        held_out.append(
            card.Losses(
                window=length,
                windows=len(windows),
                loss=judged.loss,
                bits_per_byte=bits,
                by_position=evaluate.bands(judged.by_position),
            )
        )
    windows, _ = stream.held_out_windows(novels, vocabulary, SHORT)
    unigram, bigram = evaluate.counting_bars(train, windows, entry.architecture.vocab)
    rounding = None
    if entry.storage != "float32":
        some = windows[::8]
        rounding = evaluate.held_out(written, some).loss - evaluate.held_out(net, some).loss
    beside = None
    if entry.teacher is not None:
        target = start.read(entry.teacher.model, models)
        some = windows[:: max(1, len(windows) // PAIR_WINDOWS)]
        beside = pair.compare(entry.teacher.model, target, written, some)
    return card.Card(
        **card.common(entry, written, progress, folder),
        epochs=progress.step * entry.budget.step_tokens / len(train),
        held_out=tuple(held_out),
        by_context=evaluate.by_context(written, windows[::3]),
        unigram=unigram,
        bigram=bigram,
        corpus_sha256=corpus.digest(novels),
        tokenizer_sha256=card.file_sha256(folder / "tokenizer.json"),
        start=entry.start.model if entry.start is not None else None,
        teacher=entry.teacher.model if entry.teacher is not None else None,
        kl_weight=entry.teacher.weight if entry.teacher is not None else None,
        rounding=rounding,
        pair=beside,
    )


def task(entry: Entry, asked: Task, progress: checkpoint.Progress, folder: Path) -> card.TaskCard:
    """The card of a model of a task, as it stands in `folder`."""
    written = export.read(folder, entry.architecture)
    if isinstance(asked, Recall):
        counts = [pairs for pairs in PAIRS if pairs <= asked.pairs]
        found = {f"{n} pairs": accuracy.recall(written, asked, n, SEED) for n in counts}
    else:
        distances = [d for d in DISTANCES if asked.near <= d <= asked.far]
        found = {f"distance {d}": accuracy.needle(written, asked, d, SEED) for d in distances}
    return card.TaskCard(
        **card.common(entry, written, progress, folder),
        task={"kind": type(asked).__name__, **vars(asked)},
        accuracy=found,
        chance=1 / asked.values,
    )
