"""`harness suite`: check a suite file, or print the JSON schema of one."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.listing import PluginPaths

if TYPE_CHECKING:
    from harness.suite import Profile, Suite

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="workload.batch=1,8; may be repeated."),
]


def register(app: typer.Typer) -> None:
    """Add the group `suite` to the application."""
    group = typer.Typer(name="suite", help="Check suites.", no_args_is_help=True)
    group.command()(check)
    group.command()(schema)
    app.add_typer(group)


def check(
    file: Annotated[str, typer.Argument(metavar="FILE|NAME", help="A suite file or its name.")],
    settings: Settings = None,
    plugin_path: PluginPaths = None,
) -> None:
    """Check a suite and say what it would measure under each profile that names a model.

    Ends with 2 where the suite is wrong, or where none of a profile's cases could run.
    """
    from harness import registry
    from harness.suite import load, override, with_profile
    from harness.suite.schema import PROFILES

    registry.install(plugin_path or [])
    suite = override(load(file), settings or [])
    typer.echo(f"{suite.suite}: {suite.about or 'good'}")
    # Without any model the first profile says what is missing.
    for profile in [p for p in PROFILES if _can_plan(with_profile(suite, p))] or PROFILES:
        _summarize(suite, profile)


def schema() -> None:
    """Print the JSON schema of suite files, for editors."""
    from harness.suite import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def _summarize(suite: Suite, profile: Profile) -> None:
    """Cases, runs and stacks of one profile, and why some cannot run."""
    from harness.suite import cases, with_profile

    planned = cases(suite, profile)
    laid = with_profile(suite, profile)
    runnable = [entry for entry in planned if entry.runnable]
    typer.echo(
        f"  {profile}: {_count(len(runnable), 'case')} in "
        f"{_count(laid.measure.rounds, 'round')}, "
        f"{_count(len(runnable) * laid.measure.rounds, 'run')}"
    )
    counts = Counter(entry.case.label for entry in runnable)
    models: dict[str, dict[str, None]] = {}
    for entry in runnable:
        models.setdefault(entry.case.label, {})[entry.case.model] = None
    for label, count in counts.items():
        named = ", ".join(filter(None, models[label]))
        on = f" on {named}" if named else ""
        typer.echo(f"    {label}: {_count(count, 'case')}{on}")
    reasons = Counter(entry.unsupported for entry in planned if entry.unsupported)
    for reason, count in reasons.items():
        typer.echo(f"    not supported, {_count(count, 'case')}: {reason}")


def _can_plan(suite: Suite) -> bool:
    """Whether a suite with its profile laid over it names what it needs: a model, or kernels."""
    return bool(suite.model) or suite.workload.kind == "kernel"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
