"""Stored integers of ns and bytes written for people. ASCII only: a report is piped and pasted.

Sizes are decimal (1 MB = 1,000,000 bytes), times go up to seconds.
"""

from __future__ import annotations

import math

from harness.analysis.ratios import Ratio
from harness.analysis.results import Estimate
from harness.metrics import metric as find_metric

_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
NOTHING = "-"


def value(metric: str, number: float) -> str:
    """A stored number of that metric with a unit that fits its size, to 3 significant digits."""
    return amount(find_metric(metric).unit, number)


def amount(unit: str, number: float) -> str:
    """A stored number in that unit, for people."""
    if unit == "ns":
        return duration(number)
    if unit == "bytes":
        return size(number)
    if unit == "ratio":
        return f"{number:.3f}"
    if unit == "tokens/s":
        return f"{_scaled(number)}tok/s"
    if unit == "tokens":
        return f"{number:.2f}"
    return f"{_scaled(number)}{_short(unit)}"


def duration(ns: float) -> str:
    """Nanoseconds: 1830000 -> "1.83 ms"."""
    scale, unit = _time_unit(ns)
    return f"{digits(ns / scale)} {unit}"


def duration_interval(ns: float, low: float | None, high: float | None) -> str:
    """A difference of times with its bounds in one unit: "+235 us [206, 265]"."""
    # The unit fits the largest of them: "+0.21 us [-60.8, 61.2]", and not in ns.
    scale, unit = _time_unit(max(abs(n) for n in (ns, low, high) if n is not None))
    text = f"{'+' if ns >= 0 else ''}{digits(ns / scale)} {unit}"
    if low is None or high is None:
        return text
    return f"{text} [{digits(low / scale)}, {digits(high / scale)}]"


def _time_unit(ns: float) -> tuple[float, str]:
    # 999,600 ns rounds to 1.00 ms, not to "1000 us".
    return next((unit for unit in _TIME if abs(ns) * 1.0005 >= unit[0]), _TIME[-1])


def size(number: float) -> str:
    """Bytes: 4194304 -> "4.19 MB"."""
    return f"{_scaled(number)}B"


def digits(number: float, significant: int = 3) -> str:
    """A number in plain notation: 0.0123, 1.83, 12.4, 546, 12,345."""
    if number == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(number)) + 1e-12)
    # Rounding may carry into the next decade: 9.996 is 10.0.
    if round(abs(number), significant - 1 - magnitude) >= 10 ** (magnitude + 1):
        magnitude += 1
    decimals = max(0, significant - 1 - magnitude)
    return f"{number:,.{decimals}f}"


def spread(estimate: Estimate) -> str:
    """The interval's half-width as a share of the value: "+-1.2%"; empty without an interval."""
    if estimate.value is None or estimate.ci_low is None or estimate.ci_high is None:
        return ""
    if estimate.value == 0 or estimate.ci_low == estimate.ci_high:
        return ""
    wider = max(estimate.ci_high - estimate.value, estimate.value - estimate.ci_low)
    share = 100 * wider / abs(estimate.value)
    return f"+-{share:.1f}%" if share < 9.95 else f"+-{share:.0f}%"


def times(ratio: Ratio) -> str:
    """Times better than the baseline: "1.83x [1.79, 1.87]", with as many digits as it carries."""
    return times_better(ratio.value, ratio.ci_low, ratio.ci_high)


def times_better(ratio: float | None, low: float | None, high: float | None) -> str:
    """A ratio with its bounds, where there are any."""
    if ratio is None:
        return NOTHING
    if low is None or high is None:
        return f"{_fixed(ratio, 2)}x"
    half = (high - low) / 2
    magnitude = math.floor(math.log10(ratio))
    # The half-width decides the digits, within 2 and 4 significant ones of the value.
    carried = -math.floor(math.log10(half)) if half > 0 else 2
    places = min(max(carried, 1 - magnitude, 0), max(3, 2 - magnitude))
    places = max(places, 2) if ratio < 10 else max(0, min(places, 2 - magnitude))
    if half == 0:
        return f"{_fixed(ratio, places)}x"
    return f"{_fixed(ratio, places)}x [{_fixed(low, places)}, {_fixed(high, places)}]"


def share(number: float) -> str:
    """A share with its sign: 0.123 -> "+12%", 0.0123 -> "+1.2%"."""
    percent = 100 * number
    return f"{percent:+.1f}%" if abs(percent) < 9.95 else f"{percent:+,.0f}%"


def _fixed(number: float, places: int) -> str:
    return f"{number:,.{places}f}"


def _scaled(number: float) -> str:
    """A number and its decimal prefix, with the blank between: "12.3 k", "546 "."""
    for scale, prefix in _DECIMAL:
        if abs(number) * 1.0005 >= scale or scale == 1.0:
            return f"{digits(number / scale)} {prefix}"
    raise AssertionError("the smallest prefix takes every number")


def _short(unit: str) -> str:
    return {"bytes/s": "B/s", "flop/s": "FLOP/s", "flop/byte": "FLOP/B", "J/token": "J/tok"}.get(
        unit, unit
    )
