"""`harness asv`: results for airspeed velocity, which draws histories and compares commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.listing import Database

if TYPE_CHECKING:
    from harness.analysis.results import Result
    from harness.store import SweepRow
    from harness.store.reader import Reader

_SHOWN = 5  # sweeps that are left out, by name


def register(app: typer.Typer) -> None:
    """Add the group `asv` to the application."""
    group = typer.Typer(name="asv", help="Results for airspeed velocity.", no_args_is_help=True)
    group.command()(export)
    # With one command alone typer would take the group for it.
    group.callback()(lambda: None)
    app.add_typer(group)


def export(
    folder: Annotated[Path, typer.Argument(help="asv's results_dir, as in asv.conf.json.")] = Path(
        ".asv/results"
    ),
    db: Database = None,
    every: Annotated[
        bool, typer.Option("--every", help="Also commits that this checkout does not know.")
    ] = False,
) -> None:
    """Write every clean sweep as asv keeps results; then 'asv publish', 'show' and 'compare' work.

    Throughput is exported as its reciprocal: asv takes smaller for better.
    """
    from harness.hardware.revision import git
    from harness.interop.asv.export import export as write
    from harness.paths import root
    from harness.store import open_reader

    known = None if every else frozenset((git(root(), "rev-list", "--all") or "").split())
    with open_reader(db) as reader:
        done = write(_sweeps(reader), folder, known)
    typer.echo(f"wrote {done.benchmarks} benchmarks at {done.commits} commits to {folder}")
    for number, why in done.left_out[:_SHOWN]:
        typer.echo(f"left out sweep {number}: {why}")
    if len(done.left_out) > _SHOWN:
        typer.echo(f"left out {len(done.left_out) - _SHOWN} more")


def _sweeps(reader: Reader) -> Iterator[tuple[SweepRow, Sequence[Result]]]:
    """Measured sweeps with their results, oldest first, one in memory at a time."""
    from harness.analysis.results import results
    from harness.analysis.sides import measured

    for row in reversed(measured(reader.sweeps())):
        yield row, results(reader.runs(row.id))
