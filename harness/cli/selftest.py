"""`harness selftest`: does the instrument on this machine tell the truth?"""

from __future__ import annotations

import signal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.listing import Table, print_table
from harness.errors import unknown
from harness.exit_codes import ExitCode, interrupted

if TYPE_CHECKING:
    from harness.selftest.trials import Trial


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def selftest(
        only: Annotated[
            list[str] | None, typer.Option(metavar="GLOB", help="Trials to make, 'nan*'.")
        ] = None,
        profile: Annotated[
            Literal["cpu", "cuda"] | None,
            typer.Option(help="The device; by default a GPU where there is one."),
        ] = None,
        lock: Annotated[
            Path | None, typer.Option(envvar="HARNESS_LOCK", hidden=True, help="The lock's file.")
        ] = None,
    ) -> None:
        """Send techniques with known answers through the real sweep, and see what it says.

        They sleep, lie, break and hang. Ends with 1 where the instrument does not say so: then no
        number that it measures on this machine is worth anything. Takes about two minutes.
        """
        from harness.hardware.detection import detect
        from harness.selftest.run import selftest as run

        trials = _chosen(only or [])

        def say(line: str) -> None:
            typer.echo(line, err=True)

        verdicts = list(run(trials, detect(profile), say, lock=lock))
        rows = [
            (v.trial.name, v.trial.expected, v.found, "true" if v.true else "LIE") for v in verdicts
        ]
        print_table(Table(("trial", "must come out", "came out", "the instrument"), rows))
        lies = [verdict for verdict in verdicts if not verdict.true]
        for verdict in lies:
            for fault in verdict.faults:
                typer.echo(f"{verdict.trial.name}: {fault}")
        if len(verdicts) < len(trials):
            typer.echo(f"\nstopped after {len(verdicts)} of {len(trials)} trials")
            raise typer.Exit(interrupted(signal.SIGINT))
        typer.echo(
            f"\n{len(verdicts)} trials: "
            + (
                f"the instrument lies in {len(lies)}."
                if lies
                else "the instrument tells the truth."
            )
        )
        raise typer.Exit(ExitCode.NEGATIVE if lies else ExitCode.GOOD)


def _chosen(only: list[str]) -> list[Trial]:
    from harness.selftest.trials import TRIALS

    for glob in only:
        if not any(fnmatchcase(trial.name, glob) for trial in TRIALS):
            raise unknown("trial", glob, [trial.name for trial in TRIALS])
    if not only:
        return list(TRIALS)
    return [t for t in TRIALS if any(fnmatchcase(t.name, glob) for glob in only)]
