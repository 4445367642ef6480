"""Limits of a device: what no right measurement can beat, and what a fraction is a fraction of."""

from __future__ import annotations

from pydantic import Field

from harness.records import Record


class Ceilings(Record):
    """Measured or datasheet limits of the device, for the plausibility gate and `achieved`.

    `bandwidth_bytes_per_s` is that of memory; `cache_bandwidth_bytes_per_s` that of a working set
    within `cache_bytes`, the last-level cache; None where it is not known.
    """

    bandwidth_bytes_per_s: float = Field(gt=0)
    flops_per_s: dict[str, float]  # by dtype name
    source: str  # "measured" or the catalogue's name
    cache_bandwidth_bytes_per_s: float | None = None
    cache_bytes: int | None = None
    host_to_device_bytes_per_s: float | None = None
    all_reduce_bytes_per_s: float | None = None  # bytes over time, where there are several devices
    launch_seconds: float | None = None  # of an operation that does nothing
    headroom: float = Field(
        1.0, ge=1, description="a right result may be this many times faster than these limits"
    )

    def ridge(self, dtype: str) -> float | None:
        """FLOPs a byte above which the device computes rather than moves; lecture 2.1."""
        peak = self.flops_per_s.get(dtype)
        return None if peak is None else peak / self.bandwidth_bytes_per_s

    def seconds_to_move(self, moved_bytes: float) -> float:
        """The least time to move these bytes once.

        What fits into the last-level cache may still lie there from the step before, so that much
        moves at the cache's rate (at none, where that is not known), and only the rest at memory's.
        """
        cached = min(moved_bytes, self.cache_bytes or 0)
        seconds = (moved_bytes - cached) / self.bandwidth_bytes_per_s
        if self.cache_bandwidth_bytes_per_s is not None:
            seconds += cached / max(self.cache_bandwidth_bytes_per_s, self.bandwidth_bytes_per_s)
        return seconds

    def seconds_to_compute(self, flops: float, dtype: str) -> float:
        """The least time to compute these FLOPs; 0 in a dtype that has no measured peak."""
        peak = self.flops_per_s.get(dtype)
        return flops / peak if peak else 0.0

    def raised(self, other: Ceilings) -> Ceilings:
        """The higher of each limit: a later measurement on a busier machine lowers nothing."""
        rates = [
            rate
            for rate in (self.cache_bandwidth_bytes_per_s, other.cache_bandwidth_bytes_per_s)
            if rate is not None
        ]
        return self.model_copy(
            update={
                "bandwidth_bytes_per_s": max(
                    self.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s
                ),
                "flops_per_s": {
                    dtype: max(self.flops_per_s.get(dtype, 0.0), other.flops_per_s.get(dtype, 0.0))
                    for dtype in sorted({*self.flops_per_s, *other.flops_per_s})
                },
                "cache_bandwidth_bytes_per_s": max(rates, default=None),
            }
        )


class InForce(Record):
    """The limits that judge one sweep, and that its fractions are fractions of.

    What is kept with the hardware only ever rises, so a fraction of a later sweep may be lower for
    the same time: each is read with its own sweep's limits.
    """

    measured: dict[int, Ceilings] = Field(default_factory=dict)  # by threads
    datasheet: Ceilings | None = None  # where there is one, it decides and `measured` warns
