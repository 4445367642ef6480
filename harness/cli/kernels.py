"""`harness kernels`: compile them for targets that need not be at hand, and tune them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.listing import Database, Row, Table, print_table
from harness.errors import NothingMeasuredError, UsageError
from harness.exit_codes import ExitCode

if TYPE_CHECKING:
    from harness.aot.figures import Compiled
    from harness.kernel import KernelSpec
    from harness.run import GateResult

DEFAULT_TARGETS = "sm_80,sm_90,sm_100,gfx942"
_COLUMNS = (
    "kernel", "function", "target", "registers", "spills", "shared", "occupancy", "128-bit",
    "narrower", "async", "matrix", "local", "verdict", "configuration",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the group `kernels` to the application."""
    group = typer.Typer(
        name="kernels", help="Compile and tune the Triton kernels.", no_args_is_help=True
    )
    group.command("compile")(compile_)
    app.add_typer(group)


def compile_(
    target: Annotated[
        str, typer.Option(help="Architectures, separated by commas.")
    ] = DEFAULT_TARGETS,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Only this kernel; may be repeated.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; one a core.")] = None,
    store: Annotated[
        bool, typer.Option("--store/--no-store", help="Keep the figures as results.")
    ] = True,
    db: Database = None,
) -> None:
    """Compile every configuration of every kernel to machine code, and judge the code.

    No GPU is needed. Registers, spills, shared memory, occupancy and instructions are read off the
    machine code and held to the kernel's claims and the target's limits; 1 where a gate is red.
    """
    from harness.target import target_named

    targets = [target_named(name.strip()) for name in target.split(",")]
    specs = _specs(kernel or [])
    require_triton()
    from harness.aot.build import build
    from harness.aot.gate import judge
    from harness.kernel import Claims

    begun = time.monotonic()
    compiled = build(specs, targets, workers=workers, progress=_progress)
    claims = {spec.name: spec.claims for spec in specs}
    judged = [
        (each, judge(each, claims[each.unit.kernel].get(each.unit.function, Claims())))
        for each in compiled
    ]
    print_table(Table(_COLUMNS, [_row(each, gates) for each, gates in judged]))
    red = [gate for _, gates in judged for gate in gates if not gate.passed]
    for gate in red:
        typer.echo(f"red: {gate.name}: {gate.detail}")
    functions = sum(each.figures is not None for each in compiled)
    gates = sum(len(gates) for _, gates in judged)
    typer.echo(
        f"{functions} functions for {len(targets)} targets, {gates - len(red)} of {gates} gates "
        f"green, {time.monotonic() - begun:.0f} s"
    )
    if store:
        _store(judged, db)
    if red:
        raise typer.Exit(ExitCode.NEGATIVE)
    if not functions:
        raise NothingMeasuredError("nothing was compiled: no configuration fits these targets")


def require_triton() -> None:
    """Refuse where Triton is missing, or interprets."""
    from harness.launch import available, interpreted

    if not available():
        raise UsageError(
            "Triton is not installed, so no kernel can be compiled; it exists on Linux: "
            "pip install -c constraints.txt triton"
        )
    if interpreted():
        raise UsageError("TRITON_INTERPRET=1 is set, and an interpreter compiles nothing; unset it")


def _specs(names: Sequence[str]) -> list[KernelSpec]:
    """The kernels of these names, all without one, that have a Triton form."""
    from harness import registry

    specs = [registry.kernel(name) for name in names or registry.kernel_names()]
    for spec in specs:
        if names and spec.triton is None:
            raise UsageError(
                f"kernel '{spec.name}' has no Triton form: there is nothing to compile"
            )
    return [spec for spec in specs if spec.triton is not None]


def _progress(done: int, wanted: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{done} of {wanted} functions compiled", err=True, nl=done == wanted)


def _row(compiled: Compiled, gates: Sequence[GateResult]) -> Row:
    unit, found = compiled.unit, compiled.figures
    if found is None:
        verdict = (
            f"unsupported: {compiled.unsupported}" if compiled.unsupported else "red: compiles"
        )
        return (unit.kernel, unit.function, unit.target, *[""] * 9, verdict, compiled.title)
    red = [gate.name for gate in gates if not gate.passed]
    matrix = " ".join(f"{number} {kind}" for kind, number in found.tensor_core.items())
    return (
        unit.kernel,
        unit.function,
        unit.target,
        str(found.registers),
        str(found.spill_bytes),
        str(found.shared_bytes),
        f"{found.occupancy:.0%} {found.limited_by}",
        str(found.wide_loads),
        str(found.narrow_loads),
        str(found.async_copies),
        matrix,
        str(found.local_accesses),
        f"red: {', '.join(red)}" if red else "green",
        compiled.title,
    )


def _store(judged: Sequence[tuple[Compiled, list[GateResult]]], db: str | None) -> None:
    from harness.hardware.environment import environment
    from harness.hardware.revision import revision
    from harness.store import open_store
    from harness.sweep.static import store_compiled

    with open_store(db) as store:
        ids = store_compiled(store, judged, environment(), revision(), sys.argv[1:])
    typer.echo("stored as " + ", ".join(f"sweep {number} ({name})" for name, number in ids.items()))
