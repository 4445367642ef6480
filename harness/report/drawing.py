"""From panels of numbers to SVG text that follows the page's colours. matplotlib is imported here,
when something is drawn, and nowhere else.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analysis.results import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES = 6  # colours the page defines; further stacks repeat them with another marker and dash
# Stand for currentColor and for the page's CSS variables until the drawing is text.
_INK, _FAINT = "#010203", "#010204"
_MARKERS = "osD^vP"
_DASHES = ("-", "--", ":")
_PER_ROW = 3
# The width is the same whatever the number of panels, so that text has one size on a page.
_WIDTH_INCHES, _ROW_INCHES, _LEGEND_INCHES = 9.6, 2.9, 0.4
# Beyond this a linear axis hides the small values.
_LOG_FROM = 12.0


@dataclass(frozen=True)
class Panel:
    """One small plot: by stack, values at places of the axis."""

    title: str
    series: dict[str, list[tuple[float, Estimate]]]


@dataclass(frozen=True)
class Bars:
    """One small plot of bars: by stack, (measured, by formula or None) at named places."""

    title: str
    series: dict[str, dict[str, tuple[float, float | None]]]


@dataclass(frozen=True)
class Course:
    """One small plot over time: named series with a value at each place."""

    title: str
    places: Sequence[float]
    series: Mapping[str, Sequence[float]]


def lines(
    panels: Sequence[Panel],
    stacks: Sequence[str],
    x_label: str,
    y_label: str,
    unit: float,
    salt: str,
) -> str:
    """Values with their intervals against a positive axis, one panel beside the other.

    Args:
        panels: what to draw.
        stacks: every label, in the order of the colours.
        x_label: what the axis below counts.
        y_label: what the axis to the left counts, with its unit.
        unit: stored units in one unit of the label.
        salt: any text that is unique on the page; it makes the drawing's ids so.
    """
    shown = [e for panel in panels for values in panel.series.values() for _, e in values]
    every = [estimate.value for estimate in shown if estimate.value]
    log = max(every) > _LOG_FROM * min(every)
    top = max(estimate.ci_high or estimate.value or 0.0 for estimate in shown) / unit

    def draw(axes: Axes, index: int) -> None:
        panel = panels[index]
        places = sorted({x for values in panel.series.values() for x, _ in values})
        for stack, values in panel.series.items():
            _line(axes, stacks.index(stack), stack, dict(values), places, unit)
        axes.set_xscale("log", base=2)
        axes.set_xticks(places, [f"{x:,g}" for x in places])
        axes.set_xticks([], minor=True)
        axes.set_xlabel(x_label)
        axes.set_title(panel.title, fontsize=9, color=_INK)
        if log:
            axes.set_yscale("log")
        else:
            # Said for all panels at once: they share the axis, and the first one does not know.
            axes.set_ylim(0, 1.06 * top)

    return _figure(len(panels), draw, y_label, salt, share=True, plain=log)


def bars(
    panels: Sequence[Bars], stacks: Sequence[str], y_label: str, unit: float, salt: str
) -> str:
    """Bars side by side at each place, with a dash where the formula says the bar should end."""

    def draw(axes: Axes, index: int) -> None:
        panel = panels[index]
        places = list(dict.fromkeys(p for values in panel.series.values() for p in values))
        width = 0.8 / len(panel.series)
        for i, (stack, values) in enumerate(panel.series.items()):
            offset = (i - (len(panel.series) - 1) / 2) * width
            colour = _colour(stacks.index(stack))
            for place, (measured, formula) in values.items():
                x = places.index(place) + offset
                axes.bar(x, measured / unit, width * 0.92, color=colour, label=stack)
                if formula is not None:
                    half = width * 0.46
                    axes.hlines(formula / unit, x - half, x + half, color=_INK, linewidth=1.6)
        axes.set_xticks(range(len(places)), places)
        axes.set_xlabel("prompt tokens")
        axes.set_ylim(bottom=0)
        axes.set_title(panel.title, fontsize=9, color=_INK)

    return _figure(len(panels), draw, y_label, salt, share=False, plain=False)


def courses(panels: Sequence[Course], x_label: str, salt: str) -> str:
    """Series over time, two panels a row, one legend for all: series of a name share a colour."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.series))

    def draw(axes: Axes, index: int) -> None:
        panel = panels[index]
        for name, values in panel.series.items():
            rank = names.index(name)
            axes.plot(panel.places, values, color=_colour(rank), linewidth=1.4, label=name)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel(x_label)
        axes.set_title(panel.title, fontsize=9, color=_INK)

    return _figure(len(panels), draw, "", salt, share=False, plain=False, columns=2)


def _line(
    axes: Axes,
    rank: int,
    stack: str,
    values: dict[float, Estimate],
    places: Sequence[float],
    unit: float,
) -> None:
    """One stack: a marker a value, its interval as a bar through it, a gap where it has none."""
    y, below, above = [], [], []
    for place in places:
        e = values.get(place)
        # NaN breaks the line: a case that failed must not look interpolated.
        centre = math.nan if e is None or e.value is None else e.value / unit
        y.append(centre)
        below.append(0.0 if e is None or e.ci_low is None else max(0.0, centre - e.ci_low / unit))
        above.append(0.0 if e is None or e.ci_high is None else max(0.0, e.ci_high / unit - centre))
    axes.errorbar(
        places,
        y,
        yerr=[below, above],
        color=_colour(rank),
        marker=_MARKERS[rank % len(_MARKERS)],
        linestyle=_DASHES[rank // SERIES % len(_DASHES)],
        markersize=5,
        linewidth=1.6,
        capsize=3,
        label=stack,
    )


def _figure(
    count: int,
    draw: Callable[[Axes, int], None],
    y_label: str,
    salt: str,
    *,
    share: bool,
    plain: bool,
    columns: int | None = None,
) -> str:
    """Panels in rows under one legend, as SVG text."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    columns = min(count, columns or (2 if count == 4 else _PER_ROW))
    rows = -(-count // columns)
    # Text stays text in the page's font, and a dollar sign in a label is no formula.
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 9, "text.parse_math": False}
    ):
        size = (_WIDTH_INCHES, rows * _ROW_INCHES + _LEGEND_INCHES)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=share)
        handles: dict[str, Any] = {}
        for index, axes in enumerate(grid.flat):
            if index >= count:
                axes.set_visible(False)
                continue
            draw(axes, index)
            _style(axes)
            if plain:
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
                axes.yaxis.set_minor_formatter(NullFormatter())
            if index % columns == 0:
                axes.set_ylabel(y_label)
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper left",
            ncols=min(len(handles), 4),
            frameon=False,
            labelcolor=_INK,
        )
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _inline(text.getvalue())


def _style(axes: Axes) -> None:
    """Thin axes in the page's ink, a faint grid behind the values."""
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=_FAINT, linewidth=0.8)
    axes.tick_params(colors=_INK, which="both", width=0.8)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_INK)


def _colour(rank: int) -> str:
    return f"#0a0b{rank % SERIES + 1:02x}"


def _inline(svg: str) -> str:
    """The drawing as it stands in a page: no prolog, no metadata, colours by the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace(_INK, "currentColor").replace(_FAINT, "var(--line)")
    return re.sub(r"#0a0b(\d\d)", lambda m: f"var(--series-{int(m[1])})", svg).strip()
