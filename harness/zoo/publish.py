"""From a table row to a model's folder: train or restore, export, judge, write the card."""

from pathlib import Path

import tokenizers

from harness.errors import UsageError
from harness.zoo import card, checkpoint, corpus, export, judge, network, readme, tokenizer, train
from harness.zoo.table import Entry


def trained(
    entry: Entry,
    novels: list[corpus.Novel],
    kept: Path,
    folder: Path,
    *,
    resume: bool,
    models: Path = export.MODELS,
) -> None:
    """Train to the end of the budget, then write `folder`.

    `kept` is the checkpoint's place, `models` that of the models that the row builds on.
    """
    vocabulary = words(entry)
    result = train.train(entry, novels, vocabulary, kept, models=models, resume=resume, tell=_tell)
    _write(entry, result.network, result.progress, novels, folder, models)


def snapshot(
    entry: Entry,
    novels: list[corpus.Novel],
    kept: Path,
    folder: Path,
    *,
    models: Path = export.MODELS,
) -> None:
    """Write `folder` from a checkpoint, finished or not; UsageError where there is none."""
    if not kept.exists():
        raise UsageError(f"no checkpoint at '{kept}'; `python -m harness.zoo train` writes one")
    vocabulary = words(entry)
    recipe = train.digest(entry, novels, vocabulary, models)
    progress, tensors = checkpoint.load(kept, recipe)
    net = network.Network(entry.architecture)
    train.restore(net, train.make_optimizer(net, entry.budget), tensors)
    _write(entry, net, progress, novels, folder, models)


def words(entry: Entry) -> tokenizers.Tokenizer:
    """The family's tokenizer; UsageError where a model of text has too small a vocabulary."""
    return tokenizer.load(entries=entry.architecture.vocab if entry.task is None else None)


def finished(entry: Entry, folder: Path) -> bool:
    """Whether `folder` holds the model that the row describes, trained to its end."""
    try:
        told = card.read_any(folder)
        weights = export.weights_file(folder)
    except UsageError:
        return False
    return (
        told.finished
        and told.architecture == vars(entry.architecture)
        and told.budget == vars(entry.budget)
        and told.weights_sha256 == card.file_sha256(weights)
    )


def _write(
    entry: Entry,
    net: network.Network,
    progress: checkpoint.Progress,
    novels: list[corpus.Novel],
    folder: Path,
    models: Path,
) -> None:
    export.write(folder, net, entry.storage, tokenizer.PATH if entry.task is None else None)
    made: card.Card | card.TaskCard
    if entry.task is None:
        made = judge.text(entry, net, progress, novels, folder, models)
        told = f"held out {made.held_out[0].loss:.4f} nats"
    else:
        made = judge.task(entry, entry.task, progress, folder)
        told = ", ".join(f"{what} {share:.3f}" for what, share in made.accuracy.items())
    card.write(folder, made)
    (folder / "README.md").write_text(readme.render(made), encoding="utf-8")
    print(f"{folder}: {told} after {made.steps} steps")


def _tell(progress: checkpoint.Progress) -> None:
    point = progress.curve[-1]
    right = "" if point.accuracy is None else f", {point.accuracy:.3f} right"
    print(
        f"step {point.step}: train {point.train_loss:.4f}, held out {point.held_out_loss:.4f}"
        f"{right}, {progress.cpu_seconds:.0f} CPU-s",
        flush=True,
    )
