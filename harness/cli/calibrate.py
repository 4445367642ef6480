"""`harness calibrate`: measure what this device can do at most, and what it does typically."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.listing import Database
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.hardware.ceilings import Ceilings
    from harness.hardware.identity import HardwareRow

_DTYPES = ("float32", "float64", "float16", "bfloat16")


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def calibrate(
        profile: Annotated[
            Literal["cpu", "cuda"] | None,
            typer.Option(help="The device; by default a GPU where there is one."),
        ] = None,
        threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
        dtype: Annotated[
            str, typer.Option(metavar="NAMES", help="Number formats to predict in, of a CPU.")
        ] = "float32",
        db: Database = None,
        store: Annotated[
            bool, typer.Option(help="Keep it in the database, for sweeps and predictions.")
        ] = True,
    ) -> None:
        """Measure bandwidths, matrix rates and launches, print them and keep them.

        The highest of each bound what a sweep believes; on a CPU what is typical is measured too,
        operation by operation, for 'harness predict --hardware local'. Run it on a quiet machine.
        """
        from harness.cli.sweep import known_hardware
        from harness.hardware.calibration import calibrate as measure
        from harness.hardware.calibration import with_ceilings
        from harness.hardware.detection import detect

        dtypes = [name.strip() for name in dtype.split(",")]
        for name in dtypes:
            if name not in _DTYPES:
                raise UsageError(f"--dtype '{name}' is none of {', '.join(_DTYPES)}")
        hardware = known_hardware(detect(profile), db)
        ceilings = measure(hardware.kind, threads)
        _print(hardware, threads, ceilings)
        hardware = with_ceilings(hardware, threads, ceilings)
        if hardware.kind == "cpu":
            hardware = _typical(hardware, threads, dtypes)
        if store:
            _keep(hardware, db)


def _print(hardware: HardwareRow, threads: int, ceilings: Ceilings) -> None:
    on = f"{threads} thread{'s' * (threads > 1)}" if hardware.kind == "cpu" else hardware.arch
    typer.echo(f"{hardware.name}, {on}")
    typer.echo(f"memory       {ceilings.bandwidth_bytes_per_s / 1e9:10.1f} GB/s")
    if ceilings.cache_bytes is not None:
        rate = ceilings.cache_bandwidth_bytes_per_s
        told = "rate not measured" if rate is None else f"{rate / 1e9:10.1f} GB/s"
        typer.echo(f"cache        {told}, {ceilings.cache_bytes / 2**20:.0f} MiB")
    for name, rate in (
        ("from host", ceilings.host_to_device_bytes_per_s),
        ("all-reduce", ceilings.all_reduce_bytes_per_s),
    ):
        if rate is not None:
            typer.echo(f"{name:12} {rate / 1e9:10.1f} GB/s")
    if ceilings.launch_seconds is not None:
        typer.echo(f"launch       {ceilings.launch_seconds * 1e6:10.1f} us")
    for name, peak in ceilings.flops_per_s.items():
        ridge = ceilings.ridge(name)
        typer.echo(f"{name:12} {peak / 1e9:10.1f} GFLOP/s, ridge at {ridge:.0f} FLOPs a byte")
    typer.echo(f"a result up to {ceilings.headroom:g} times faster than these is still believed")


def _typical(hardware: HardwareRow, threads: int, dtypes: list[str]) -> HardwareRow:
    """Measure what predictions take, print it, and add it to the row."""
    from harness.predict.calibration import measure, with_local

    found = measure(threads, dtypes)
    for name, local in found.items():
        share, table = local.efficiency, local.measured
        typer.echo(f"\ntypical in {name}")
        typer.echo(f"matrix       {local.flops_per_s / 1e9:10.1f} GFLOP/s")
        for rows, line in zip(table.rows, table.product_seconds, strict=True):
            rates = "  ".join(f"{2e-9 * rows / seconds:7.1f}" for seconds in line)
            typer.echo(f"{rows:4.0f} row{'s' * (rows > 1)}{' ' * (rows == 1)}    {rates} GFLOP/s")
        held = "  ".join(f"{size / 1e6:7.0f}" for size in table.working_sets)
        typer.echo(f"of weights   {held} MB")
        typer.echo(f"state        {table.state_bytes_per_s / 1e9:10.1f} GB/s")
        typer.echo(f"launch       {share.launch_seconds * 1e6:10.1f} us")
        typer.echo(f"a step       {share.step_seconds * 1e6:10.1f} us")
        typer.echo(f"prompts      {share.prompt_seconds * 1e6:10.1f} us more of it")
        typer.echo(f"a sequence   {share.sequence_seconds * 1e6:10.1f} us of it")
    return with_local(hardware, threads, found)


def _keep(hardware: HardwareRow, db: str | None) -> None:
    from harness.store import open_store
    from harness.store.faults import shown

    with open_store(db) as opened:
        opened.save_hardware(hardware)
        typer.echo(f"\nkept in {shown(opened.url)}")
