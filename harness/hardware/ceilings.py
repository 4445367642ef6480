"""Limits of a device: what no right measurement can beat, and what a fraction is a fraction of."""

from __future__ import annotations

from harness.records import Record


class Ceilings(Record):
    """Measured or datasheet limits of the device, for the plausibility gate and `achieved`.

    `bandwidth_bytes_per_s` is that of memory; `cache_bandwidth_bytes_per_s` holds for a working
    set that fits into `cache_bytes`, the last-level cache. Either cache field may be unknown.
    """

    bandwidth_bytes_per_s: float
    flops_per_s: dict[str, float]  # by dtype name
    source: str  # "measured" or the catalogue's name
    cache_bandwidth_bytes_per_s: float | None = None
    cache_bytes: int | None = None
