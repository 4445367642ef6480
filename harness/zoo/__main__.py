"""`python -m harness.zoo`: train a model of the table, or write what a checkpoint holds."""

import argparse
import sys
from pathlib import Path

from harness.errors import HarnessError
from harness.zoo import table

HERE = Path(__file__).parent


def main(argv: list[str] | None = None) -> int:
    """Parse, run, and turn a user's mistake into one sentence; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tokenizer", help="train the family's tokenizer anew")
    commands.add_parser("list", help="the table of models and budgets")
    for command, text in (
        ("train", "train a model to the end of its budget and write its folder"),
        ("snapshot", "write a model's folder from its checkpoint, as far as it has come"),
    ):
        sub = commands.add_parser(command, help=text)
        sub.add_argument("name", help=f"one of {', '.join(table.names())}")
        sub.add_argument("--out", type=Path, help="write model and checkpoint here")
        if command == "train":
            sub.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    arguments = parser.parse_args(argv)
    try:
        run(arguments)
    except HarnessError as error:
        print(f"harness.zoo: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def run(arguments: argparse.Namespace) -> None:
    """Carry out one command. Heavy imports happen here, after the arguments are known good."""
    if arguments.command == "list":
        for entry in table.TABLE:
            print(f"{entry.name}: {entry.summary}; {entry.budget.tokens:,} tokens")
        return
    from harness.zoo import corpus, tokenizer

    novels = corpus.read()
    if arguments.command == "tokenizer":
        tokenizer.train(novels).save(str(tokenizer.PATH))
        print(f"{tokenizer.PATH}: {tokenizer.digest()}")
        return
    entry = table.get(arguments.name)
    from harness.zoo import publish

    folder = arguments.out or HERE / "models" / entry.name
    kept = (arguments.out or HERE / "checkpoints") / f"{entry.name}.checkpoint"
    if arguments.command == "snapshot":
        publish.snapshot(entry, novels, kept, folder)
    else:
        publish.trained(entry, novels, kept, folder, resume=arguments.resume)


if __name__ == "__main__":
    sys.exit(main())
