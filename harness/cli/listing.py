"""`harness list`: what there is of each kind, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import HarnessError, unknown

if TYPE_CHECKING:
    from harness.shape import ModelShape

# Options that several commands share.
PluginPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin-path",
        metavar="FOLDER",
        help="A folder of technique folders, or one technique's folder; may be repeated.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option("--db", envvar="HARNESS_DB", help="Database of results: a file or a URL."),
]

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows to print under their column names; the last column may be long."""

    columns: Row
    rows: Sequence[Row]
    empty: str = "none"  # said where there is no row


def register(app: typer.Typer) -> None:
    """Add `list` to the application."""

    @app.command("list")
    def list_(
        what: Annotated[str, typer.Argument(metavar="WHAT", help=f"One of: {', '.join(_TABLES)}.")],
        plugin_path: PluginPaths = None,
        db: Database = None,
    ) -> None:
        """List techniques, kernels, suites, models, metrics, hardware or stored sweeps."""
        if what not in _TABLES:
            raise unknown("kind of thing", what, _TABLES)
        print_table(_TABLES[what](plugin_path or [], db))


def print_table(table: Table) -> None:
    """A table of rich in a terminal, plain columns elsewhere: no frame, no colour, nothing cut."""
    if not table.rows:
        typer.echo(table.empty)
        return
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        for line in _plain([table.columns, *table.rows]):
            typer.echo(line)
        return
    drawn = RichTable(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in table.columns[:-1]:
        drawn.add_column(column, no_wrap=True)
    drawn.add_column(table.columns[-1], overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)


def _plain(rows: Sequence[Row]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _techniques(plugin_paths: Sequence[str], _db: str | None) -> Table:
    """All techniques by slot; one that cannot be imported shows why."""
    from harness import registry
    from harness.technique import BASELINES, Slot

    rows: list[tuple[int, Row]] = []
    for name in registry.names(plugin_paths):
        try:
            found = registry.get(name, plugin_paths)
        except HarnessError as error:
            rows.append((len(Slot), (name, "broken", "", str(error))))
            continue
        title = found.title + (" (baseline)" if BASELINES[found.slot] == name else "")
        rows.append((list(Slot).index(found.slot), (name, found.slot, found.lecture, title)))
    return Table(("name", "slot", "lecture", "title"), [row for _, row in sorted(rows)])


def _kernels(_plugin_paths: Sequence[str], db: str | None) -> Table:
    """All kernels, with what `harness kernels compile` last stored of each target."""
    from harness import registry
    from harness.launch import available

    triton = "torch, triton" if available() else "torch (triton is not installed)"
    static = _compiled(db)
    rows = [
        (
            spec.name,
            triton if spec.triton else "torch",
            *static.get(spec.name, ("", "")),
            spec.lecture,
            spec.summary,
        )
        for spec in map(registry.kernel, registry.kernel_names())
    ]
    columns = ("name", "backends", "static gates", "registers at most", "lecture", "summary")
    return Table(columns, rows)


def _compiled(db: str | None) -> dict[str, tuple[str, str]]:
    """Kernel -> its static gates, and the registers of its largest function by target."""
    from harness.store import open_reader
    from harness.sweep.static import latest

    try:
        with open_reader(db) as reader:
            by_target = latest(reader)
    except HarnessError:
        return {}
    gates: dict[str, list[bool]] = {}
    registers: dict[str, dict[str, float]] = {}
    for target, runs in by_target.items():
        for run in runs:
            name = run.case.label
            gates.setdefault(name, []).extend(gate.passed for gate in run.record.gates)
            most = registers.setdefault(name, {})
            for metric in run.record.metrics:
                if metric.name == "registers" and metric.value is not None:
                    most[target] = max(most.get(target, 0), metric.value)
    return {
        name: (
            f"{sum(passed)} of {len(passed)}",
            ", ".join(f"{target} {number:.0f}" for target, number in registers[name].items()),
        )
        for name, passed in gates.items()
    }


def _suites(plugin_paths: Sequence[str], _db: str | None) -> Table:
    """The shipped suites; one that does not load shows why."""
    from harness import registry
    from harness.suite import load, shipped

    registry.install(plugin_paths)
    rows: list[Row] = []
    for name in shipped():
        try:
            rows.append((name, load(name).about))
        except HarnessError as error:
            rows.append((name, str(error)))
    return Table(("name", "about"), rows)


def _models(_plugin_paths: Sequence[str], _db: str | None) -> Table:
    """Families, then models; one whose files do not read shows why."""
    from harness.model import source
    from harness.model.fetched import FETCHED

    families = set(source.families())
    rows: list[Row] = []
    for name in source.names():
        if name in FETCHED and not FETCHED[name].path.is_file():
            rows.append((name, "not here", f"'harness models fetch {name}' brings it"))
            continue
        if name in families:
            members = [m.removeprefix(f"{name}-") for m in source.members() if m.startswith(name)]
            rows.append((name, "family", f"members for {', '.join(members)}"))
            continue
        try:
            found = source.find(name, ())
        except HarnessError as error:
            rows.append((name, "broken", str(error)))
            continue
        rows.append((name, found.kind, shape_text(found.shape)))
    return Table(("name", "weights", "shape"), rows)


def shape_text(shape: ModelShape) -> str:
    """A model in numbers, on one line."""
    attention = shape.width * shape.head_dim * 2 * (shape.heads + shape.kv_heads / shape.kv_share)
    norms = 2 * shape.width
    embeddings = shape.vocab * shape.width * (1 if shape.tied else 2) + shape.width
    parameters = shape.layers * (attention + 3 * shape.width * shape.ff + norms) + embeddings
    size = f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.1f}M"
    return (
        f"{size} parameters: L={shape.layers} D={shape.width} N={shape.heads} K={shape.kv_heads} "
        f"H={shape.head_dim} F={shape.ff} V={shape.vocab}, {shape.max_len} places"
    )


def _metrics(_plugin_paths: Sequence[str], _db: str | None) -> Table:
    from harness.metrics import METRICS

    rows = [(m.name, m.unit, m.direction, m.formula) for m in METRICS.values()]
    return Table(("name", "unit", "better", "formula"), rows)


def _hardware(_plugin_paths: Sequence[str], _db: str | None) -> Table:
    """This machine, then the catalogue: what predictions can be made for."""
    from harness.hardware import catalogue
    from harness.hardware.detection import detect

    here = detect()
    memory = f"{here.memory_bytes / 2**30:.0f} GiB"
    rows: list[Row] = [
        ("local", here.arch, memory, "", "", "", "", "", f"{here.name}, {here.count} x")
    ]
    for name, device in catalogue.shipped().items():
        rate = device.tflops.get("bfloat16", device.tflops.get("float16"))
        rows.append(
            (
                name,
                device.arch,
                f"{device.memory_gb:g} GB",
                f"{device.bandwidth_gb_s:,g}",
                "" if rate is None else f"{rate:,g}",
                "" if rate is None else f"{rate * 1e3 / device.bandwidth_gb_s:.0f}",
                "" if device.tdp_w is None else f"{device.tdp_w:g}",
                "" if device.link_gb_s is None else f"{device.link_gb_s:g}",
                device.name,
            )
        )
    columns = (
        "name",
        "arch",
        "memory",
        "GB/s",
        "16-bit TFLOP/s",
        "ridge",
        "W",
        "link GB/s",
        "device",
    )
    return Table(columns, rows)


def _sweeps(_plugin_paths: Sequence[str], db: str | None) -> Table:
    from harness.store import open_reader

    with open_reader(db) as reader:
        sweeps = reader.sweeps()
    rows = [
        (
            str(sweep.id),
            f"{sweep.started_at:%Y-%m-%d %H:%M}",
            sweep.status,
            str(sweep.runs),
            sweep.suite,
            sweep.hardware.name,
        )
        for sweep in sweeps
    ]
    columns = ("id", "started (UTC)", "status", "runs", "suite", "hardware")
    return Table(columns, rows, empty="no sweep is stored yet; run 'harness sweep SUITE'")


_TABLES: Mapping[str, Callable[[Sequence[str], str | None], Table]] = {
    "techniques": _techniques,
    "kernels": _kernels,
    "suites": _suites,
    "models": _models,
    "metrics": _metrics,
    "hardware": _hardware,
    "sweeps": _sweeps,
}
