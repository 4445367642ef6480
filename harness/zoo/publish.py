"""From a table row to a model's folder: train or restore, export, judge, write the card."""

from pathlib import Path

from harness.errors import UsageError
from harness.zoo import card, checkpoint, corpus, export, network, readme, tokenizer, train
from harness.zoo.table import Entry


def trained(
    entry: Entry, novels: list[corpus.Novel], kept: Path, folder: Path, *, resume: bool
) -> None:
    """Train to the end of the budget, then write `folder`. `kept` is the checkpoint's place."""
    vocabulary = tokenizer.load(entries=entry.architecture.vocab)
    result = train.train(entry, novels, vocabulary, kept, resume=resume, tell=_tell)
    _write(entry, result.network, result.progress, novels, folder)


def snapshot(entry: Entry, novels: list[corpus.Novel], kept: Path, folder: Path) -> None:
    """Write `folder` from a checkpoint, finished or not; UsageError where there is none."""
    if not kept.exists():
        raise UsageError(f"no checkpoint at '{kept}'; `python -m harness.zoo train` writes one")
    vocabulary = tokenizer.load(entries=entry.architecture.vocab)
    recipe = train.digest(entry, novels, vocabulary)
    progress, tensors = checkpoint.load(kept, recipe)
    net = network.Network(entry.architecture)
    train.restore(net, train.make_optimizer(net, entry.budget), tensors)
    _write(entry, net, progress, novels, folder)


def _write(
    entry: Entry,
    net: network.Network,
    progress: checkpoint.Progress,
    novels: list[corpus.Novel],
    folder: Path,
) -> None:
    vocabulary = tokenizer.load(entries=entry.architecture.vocab)
    export.write(folder, net)
    made = card.make(entry, net, progress, novels, vocabulary, folder)
    card.write(folder, made)
    (folder / "README.md").write_text(readme.render(made), encoding="utf-8")
    print(f"{folder}: held out {made.held_out[0].loss:.4f} nats after {made.steps} steps")


def _tell(progress: checkpoint.Progress) -> None:
    point = progress.curve[-1]
    print(
        f"step {point.step}: train {point.train_loss:.4f}, held out {point.held_out_loss:.4f}, "
        f"{progress.cpu_seconds:.0f} CPU-s",
        flush=True,
    )
