"""The command line: one file a command, each with `register(app)`. Parse, call, print.

Command files import nothing heavy at module level, so that `harness --help` answers at once.
"""

import sys
from importlib import import_module
from pkgutil import iter_modules

import typer

from harness.errors import HarnessError


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
        build()()
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
