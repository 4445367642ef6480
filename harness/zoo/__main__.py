"""`python -m harness.zoo`: list the table, train its models, compare the seeds of a family."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from harness.errors import HarnessError, UsageError
from harness.zoo import rows
from harness.zoo.table import Entry

HERE = Path(__file__).parent
# What of a budget can be tried before it goes into the table.
TRIED = {"steps": int, "step_tokens": int, "learning_rate": float, "initial_std": float}


def main(argv: list[str] | None = None) -> int:
    """Parse, run, and turn a user's mistake into one sentence; the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        run(arguments)
    except HarnessError as error:
        print(f"harness.zoo: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tokenizer", help="train the family's tokenizer anew")
    told = commands.add_parser("list", help="the table of models, budgets, costs, what came out")
    told.add_argument("--out", type=Path, help="of what `train --all --out` has put there")
    commands.add_parser("family", help="differences between architectures beside the seeds' spread")
    train = commands.add_parser("train", help="train to the end of the budget, write the folder")
    train.add_argument("name", nargs="?", help=f"one of {', '.join(rows.names())}")
    train.add_argument(
        "--all", action="store_true", help="every model that is not finished, in the table's order"
    )
    train.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    train.add_argument(
        "--out", type=Path, help="write model and checkpoint here; with --all a folder each"
    )
    for name, kind in TRIED.items():
        train.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            help="instead of the table's, to tune a budget; needs --out",
        )
    snapshot = commands.add_parser("snapshot", help="the folder, from the last checkpoint")
    snapshot.add_argument("name", help="a model of the table")
    snapshot.add_argument("--out", type=Path, help="where model and checkpoint are")
    return parser


def run(arguments: argparse.Namespace) -> None:
    """Carry out one command. Heavy imports happen here, after the arguments are known good."""
    if arguments.command == "list":
        from harness.zoo import listing

        print(listing.render(_models(arguments.out)))
    elif arguments.command == "family":
        from harness.zoo import family

        print(family.render())
    elif arguments.command == "tokenizer":
        from harness.zoo import corpus, tokenizer

        tokenizer.train(corpus.read()).save(str(tokenizer.PATH))
        print(f"{tokenizer.PATH}: {tokenizer.digest()}")
    elif arguments.command == "train" and arguments.all:
        if arguments.name:
            raise UsageError(f"--all trains every model; '{arguments.name}' names one")
        _train_all(arguments.out)
    elif not arguments.name:
        raise UsageError("train needs the name of a model, or --all")
    else:
        _one(_tried(rows.get(arguments.name), arguments), arguments)


def _tried(entry: Entry, arguments: argparse.Namespace) -> Entry:
    """The row with the budget that the command line asks for."""
    given = {name: getattr(arguments, name, None) for name in TRIED}
    changed = {name: value for name, value in given.items() if value is not None}
    if changed and arguments.out is None:
        raise UsageError("another budget than the table's needs --out: models/ holds the table's")
    return replace(entry, budget=replace(entry.budget, **changed))


def _one(entry: Entry, arguments: argparse.Namespace) -> None:
    """Train one model, or write it out as far as it has come."""
    from harness.zoo import corpus, publish

    novels = corpus.read()
    folder = arguments.out or HERE / "models" / entry.name
    kept = (arguments.out or HERE / "checkpoints") / f"{entry.name}.checkpoint"
    if arguments.command == "snapshot":
        publish.snapshot(entry, novels, kept, folder)
    else:
        publish.trained(entry, novels, kept, folder, resume=arguments.resume)


def _train_all(out: Path | None) -> None:
    """Train what is not finished yet; an interruption costs at most a hundred steps. At the end
    the table says what each model took."""
    from harness.zoo import corpus, listing, publish

    novels = corpus.read()
    models, checkpoints = _models(out), (out or HERE) / "checkpoints"
    for entry in rows.TABLE:
        folder = models / entry.name
        if publish.finished(entry, folder):
            print(f"{entry.name}: finished")
            continue
        kept = checkpoints / f"{entry.name}.checkpoint"
        # A checkpoint of another recipe is refused with a sentence: it may be somebody's hours.
        publish.trained(entry, novels, kept, folder, resume=True, models=models)
    print(f"\n{listing.render(models)}")


def _models(out: Path | None) -> Path:
    """The folder of models: the committed ones, or those of `--out`."""
    return (out or HERE) / "models"


if __name__ == "__main__":
    sys.exit(main())
