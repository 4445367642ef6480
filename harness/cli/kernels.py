"""`harness kernels`: compile them for targets that need not be at hand, and tune them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.listing import Database, Row, Table, print_table
from harness.errors import (
    InfrastructureError,
    NothingMeasuredError,
    UsageError,
    printable,
    unknown,
)
from harness.exit_codes import ExitCode

if TYPE_CHECKING:
    from harness.aot.figures import Compiled
    from harness.kernel import KernelSpec
    from harness.run import GateResult
    from harness.worker.tuning import Tuned

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
    group.command()(tune)
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


def tune(
    kernel: Annotated[list[str], typer.Argument(metavar="NAME...", help="Kernels to tune.")],
    target: Annotated[str, typer.Option(help="Only 'local': what is tuned is timed.")] = "local",
    dtype: Annotated[
        str, typer.Option(help="Number formats, separated by commas.")
    ] = "bfloat16,float16",
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the table there, not into the kernel's folder."),
    ] = None,
) -> None:
    """Find the quickest tiles and warps on this machine's GPU, among those that are right.

    Every configuration is held to the reference before it is timed. The rows go to tuned.json in
    the kernel's folder, by architecture, dtype and bucket of shapes, where its launcher finds them.
    """
    if target != "local":
        raise UsageError(
            f"--target {printable(target)}: tuning times what it tries, so it can only be done "
            "on the machine at hand, --target local"
        )
    from harness.shape import DTYPE_BYTES

    dtypes = [name.strip() for name in dtype.split(",")]
    for name in dtypes:
        if name not in DTYPE_BYTES:
            raise unknown("dtype", name, DTYPE_BYTES)
    specs = _specs(kernel)
    require_triton()
    if output is not None and len(specs) > 1:
        raise UsageError("--output takes the table of one kernel; name one")
    import torch

    if not torch.cuda.is_available():
        raise InfrastructureError(
            "there is no GPU on this machine to tune on; kernels run with their defaults, and "
            "'harness kernels compile' checks those for other targets"
        )
    import triton

    from harness.kernel import implementation
    from harness.launch import table_file
    from harness.launch import target as found
    from harness.measure.calls import maker
    from harness.measure.clock import for_device
    from harness.worker.tuning import Bench, write

    arch = found(torch.device("cuda", 0)).arch
    device = torch.cuda.get_device_name(0)
    about = {"device": device, "torch": torch.__version__, "triton": triton.__version__}
    for spec in specs:
        if spec.tuning is None:
            raise UsageError(f"kernel '{spec.name}' has nothing to tune")
        call = implementation(spec, "triton")[1]
        make = maker("cuda", for_device("cuda"))
        bench = Bench(spec, call, make, arch=arch, device="cuda")
        rows = []
        with torch.inference_mode():
            for row in bench.tune(dtypes, spec.shapes["bench"]):
                rows.append(row)
                _print_tuned(spec.name, row)
        if not rows:
            raise NothingMeasuredError(f"no configuration of kernel '{spec.name}' is right here")
        place = output or table_file(spec.name)
        write(place, rows, about)
        typer.echo(f"{len(rows)} rows for {arch} are in {place}")


def _print_tuned(name: str, row: Tuned) -> None:
    refused = [each for each in row.tried if each.refused is not None]
    gain = "" if row.gain is None else f", {row.gain:.2f} times the default's speed"
    typer.echo(
        f"{name} {row.dtype} {row.bucket}: {dict(row.config)}{gain}; {len(row.tried)} tried, "
        f"{len(refused)} refused"
    )
    for each in refused:
        typer.echo(f"  {dict(each.config)}: {each.refused}")


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
                f"kernel '{spec.name}' has no Triton form: there is nothing to compile or tune"
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
