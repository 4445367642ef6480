"""`harness show`: everything about one technique, kernel, model, metric, suite or stored run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.listing import Database, PluginPaths, Table, print_table, shape_text
from harness.errors import unknown

if TYPE_CHECKING:
    from harness.technique import Technique

# Wrapped to this, so that a paragraph reads well in any terminal.
_COLUMNS = 88


def register(app: typer.Typer) -> None:
    """Add `show` to the application."""

    @app.command()
    def show(
        name: Annotated[
            str, typer.Argument(metavar="NAME|ID", help="A name of 'harness list', or a run's id.")
        ],
        plugin_path: PluginPaths = None,
        db: Database = None,
    ) -> None:
        """Show a technique, kernel, model, metric or suite by name, a stored run by its id."""
        if name.isdecimal():
            _show_run(int(name), db)
            return
        paths = plugin_path or []
        known = _known(paths)
        if name not in known:
            raise unknown("name", name, known)
        known[name](name, paths)


def _known(plugin_paths: Sequence[str]) -> dict[str, Callable[[str, Sequence[str]], None]]:
    """What shows each name; where two kinds share a name the later one stands."""
    from harness import registry
    from harness.metrics import METRICS
    from harness.model import source
    from harness.suite import shipped

    return {
        **dict.fromkeys(METRICS, _show_metric),
        **dict.fromkeys(registry.kernel_names(), _show_kernel),
        **dict.fromkeys(shipped(), _show_suite),
        **dict.fromkeys(source.names(), _show_model),
        **dict.fromkeys(registry.names(plugin_paths), _show_technique),
    }


def _show_technique(name: str, plugin_paths: Sequence[str]) -> None:
    from harness import registry

    found = registry.get(name, plugin_paths)
    defaults = found.options()
    typer.echo(f"{found.name}: {found.title}")
    if found.about:
        typer.echo(textwrap.fill(found.about, _COLUMNS))
    typer.echo("")
    _facts(
        ("slot", found.slot),
        ("compared with", found.compared_with or "nothing: it is the baseline"),
        ("exactness", f"{found.exactness(defaults)} (with default options)"),
        ("lecture", found.lecture),
        ("papers", ", ".join(found.papers) or "none"),
        ("reference", found.reference),
    )
    typer.echo("")
    print_table(_options(found))


def _options(technique: Technique[Any]) -> Table:
    """Options with what they accept, in the words of their JSON schema."""
    schema = technique.options.model_json_schema().get("properties", {})
    rows = [
        (name, _type(info), json.dumps(info.get("default")), info.get("description", ""))
        for name, info in schema.items()
    ]
    columns = ("option", "type", "default", "what it is")
    return Table(columns, rows, empty="no options")


def _type(schema: Mapping[str, Any]) -> str:
    """What a JSON schema accepts, "integer > 0 or null"."""
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    bounds = (
        f" {sign} {schema[key]}"
        for key, sign in (("exclusiveMinimum", ">"), ("minimum", ">="), ("exclusiveMaximum", "<"),
                          ("maximum", "<="))
        if key in schema
    )  # fmt: skip
    return str(schema.get("type", "any")) + "".join(bounds)


def _show_kernel(name: str, _plugin_paths: Sequence[str]) -> None:
    from harness import registry

    spec = registry.kernel(name)
    typer.echo(f"{spec.name}: {spec.summary}\n")
    shapes = ", ".join(f"{len(shapes)} {use}" for use, shapes in spec.shapes.items())
    _facts(
        ("lecture", spec.lecture),
        ("sources", ", ".join(spec.sources)),
        ("torch", spec.eager),
        ("triton", spec.triton or "none: the triton backend runs the torch form"),
        ("reference", spec.reference),
        ("shapes", shapes),
    )


def _show_metric(name: str, _plugin_paths: Sequence[str]) -> None:
    from harness.metrics import metric

    found = metric(name)
    typer.echo(f"{found.name}\n")
    _facts(("unit", found.unit), ("better", found.direction), ("formula", found.formula))


def _show_model(name: str, _plugin_paths: Sequence[str]) -> None:
    from harness.model import source

    if name in source.families():
        members = [m for m in source.members() if m.startswith(f"{name}-")]
        typer.echo(f"{name}: a family; the stack's architecture chooses its member\n")
        _facts(*((m, shape_text(source.find(m, ()).shape)) for m in members))
        return
    found = source.find(name, ())
    typer.echo(f"{found.name}: {shape_text(found.shape)}\n")
    weights = "trained" if found.kind == "trained" else "random, the same in every sweep"
    if found.inflation is not None:
        weights = (
            f"those of {found.inflation.source} enlarged: its text at this shape's cost; no "
            "published model has this shape"
        )
    _facts(
        ("weights", weights),
        ("checkpoint", found.checkpoint_hash or "none"),
        ("folder", str(found.folder or found.gguf or "none")),
        ("tokenizer", str(found.tokenizer or "none: prompts are token numbers")),
        *((key, str(value)) for key, value in vars(found.shape).items() if value not in ((), None)),
    )


def _show_suite(name: str, plugin_paths: Sequence[str]) -> None:
    from harness import registry
    from harness.suite import load

    registry.install(plugin_paths)
    suite = load(name)
    typer.echo(f"{suite.suite}: {suite.about}\n")
    typer.echo(suite.text, nl=False)


def _show_run(number: int, db: str | None) -> None:
    """A stored run with its metrics, gates and last lines of stderr."""
    from rich.console import Console

    from harness.report.run_view import print_run
    from harness.store import open_reader

    with open_reader(db) as reader:
        run, sweep_id = reader.run(number)
        print_run(Console(), run, reader.sweep(sweep_id))


def _facts(*facts: tuple[str, str]) -> None:
    """Names and values in two columns."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        typer.echo(f"{name.ljust(width)}  {value}")
