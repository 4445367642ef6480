"""Which metrics a comparison and a history look at unless they are told."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import UsageError
from harness.metrics import METRICS, PEERS
from harness.metrics import metric as find_metric

# Other readings of times that are looked at already: they would count as evidence twice.
DERIVED = (
    "itl_p99", "step_gap", "e2e", "throughput", "prefill_throughput", "decode_throughput",
    "achieved_bandwidth", "achieved_flops", "roofline_fraction", "generator_lateness",
    *(f"speedup_{peer}" for peer in PEERS),
)  # fmt: skip
# The tail is looked at, not what lies between it and the median.
_BETWEEN = ("_p50", "_p90")


def watched(names: Sequence[str] = ()) -> tuple[str, ...]:
    """The metrics to look at: those named, or all with a direction but for the derived ones.

    UsageError for an unknown name, and for a metric that is neither better high nor low.
    """
    for name in names:
        if find_metric(name).direction == "neither":
            raise UsageError(
                f"{name} is neither better high nor low, so it can be no regression; "
                "leave it out of --metric"
            )
    if names:
        return tuple(dict.fromkeys(names))
    return tuple(
        name
        for name, known in METRICS.items()
        if known.direction != "neither" and name not in DERIVED and not name.endswith(_BETWEEN)
    )
