"""`harness calibrate`: measure what this device can do at most."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def calibrate(
        profile: Annotated[
            Literal["cpu", "cuda"] | None,
            typer.Option(help="The device; by default a GPU where there is one."),
        ] = None,
        threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    ) -> None:
        """Measure memory and cache bandwidth and matrix rates, and print them. Nothing is stored.

        A sweep measures the same for itself; its plausibility gate rejects what beats them.
        """
        from harness.hardware import calibrate as measure
        from harness.hardware import detect

        hardware = detect(profile)
        ceilings = measure(hardware.kind, threads)
        on = f"{threads} thread{'s' * (threads > 1)}" if hardware.kind == "cpu" else hardware.arch
        print(f"{hardware.name}, {on}")
        print(f"memory       {ceilings.bandwidth_bytes_per_s / 1e9:10.1f} GB/s")
        if ceilings.cache_bytes is not None:
            rate = ceilings.cache_bandwidth_bytes_per_s
            told = "rate not measured" if rate is None else f"{rate / 1e9:10.1f} GB/s"
            print(f"cache        {told}, {ceilings.cache_bytes / 2**20:.0f} MiB")
        for dtype, peak in ceilings.flops_per_s.items():
            ridge = ceilings.ridge(dtype)
            print(f"{dtype:12} {peak / 1e9:10.1f} GFLOP/s, ridge at {ridge:.0f} FLOPs a byte")
        print(f"a result up to {ceilings.headroom:g} times faster than these is still believed")
