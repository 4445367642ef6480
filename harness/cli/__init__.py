"""The command line: one file a command, each with `register(app)`. Parse, call, print.

Command files import nothing heavy at module level, so that `harness --help` answers at once.
"""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

import typer

from harness.errors import HarnessError, UsageError, printable


def build() -> typer.Typer:
    """The application with every command file of this folder registered."""
    app = typer.Typer(
        name="harness",
        help="Benchmark and regression tracking for LLM inference techniques.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    for module in sorted(info.name for info in iter_modules(__path__)):
        import_module(f"{__name__}.{module}").register(app)
    return app


def main() -> None:
    """Run a command. A user's mistake ends in one sentence and its exit code, never a traceback."""
    try:
        _require_text(sys.argv[1:])
        build()()
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        where = f"to write {error.filename}" if error.filename else "for what is printed"
        print(f"harness: no disk space left {where}; free some", file=sys.stderr)
        # What is still buffered has no room either, and Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UsageError.exit_code)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse arguments with bytes that are no text: no job file and no database could hold them."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            raise UsageError(f"the argument '{printable(argument)}' is not {encoding}") from None
