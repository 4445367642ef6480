"""Drawings, as the text that stands in a page."""

import re

from harness.analysis.results import Estimate
from harness.report.drawing import Bars, Panel, bars, lines


def _at(value: float | None, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, None if value else "why", 3, low, high)


def _markers(svg: str) -> list[float]:
    """Heights of the markers of the values; the y axis of SVG points down."""
    panels = re.findall(r"<g clip-path[^>]*>\s*(<use[^>]*/>)", svg)
    return [float(y) for text in panels for y in re.findall(r' y="([\d.]+)"', text)]


def _top(svg: str) -> float:
    """Where the first panel ends above."""
    patch = re.search(r'<g id="patch_2">\s*<path d="([^"]*)"', svg)
    assert patch is not None
    return min(float(y) for y in re.findall(r"[ML] [\d.]+ ([\d.]+)", patch[1]))


def test_a_later_panel_is_not_cut_at_the_height_of_the_first() -> None:
    """The axis was closed after the first panel, and higher values left the drawing."""
    panels = [
        Panel("batch 1", {"mha": [(64, _at(1.0)), (128, _at(2.0))]}),
        Panel("batch 8", {"mha": [(64, _at(7.0)), (128, _at(9.0, 8.0, 11.0))]}),
    ]
    svg = lines(panels, ["mha"], "prompt tokens", "ms", 1.0, "salt")
    markers = _markers(svg)
    assert len(markers) >= 4
    assert min(markers) > _top(svg)


def test_a_missing_value_breaks_the_line() -> None:
    """A failed case between two good ones looked interpolated."""

    def strokes(*middle: tuple[float, Estimate]) -> int:
        values = [(64.0, _at(1.0)), *middle, (256.0, _at(3.0)), (512.0, _at(4.0))]
        panels = [Panel("batch 1", {"mha": values, "gqa": [(128.0, _at(2.0))]})]
        svg = lines(panels, ["mha", "gqa"], "prompt tokens", "ms", 1.0, "salt")
        drawn = re.findall(r'<path d="([^"]*)" clip-path[^>]*var\(--series-1\)', svg)
        return len(re.findall(r"M ", max(drawn, key=len)))

    assert strokes((128.0, _at(2.0))) == 1
    assert strokes((128.0, _at(None))) == 2
    assert strokes() == 2


def test_more_stacks_than_colours_differ_by_dash() -> None:
    stacks = [f"stack{i}" for i in range(8)]
    panels = [
        Panel("batch 1", {s: [(1, _at(1.0 + i)), (2, _at(2.0))] for i, s in enumerate(stacks)})
    ]
    svg = lines(panels, stacks, "batch", "tokens/s", 1.0, "salt")
    assert "stroke-dasharray" in svg
    assert all(f"var(--series-{i})" in svg for i in range(1, 7))
    assert "var(--series-7)" not in svg


def test_a_bar_has_a_dash_where_the_formula_ends() -> None:
    with_formula = Bars("batch 1", {"mha": {"64": (5e6, 5e6)}, "gqa": {"64": (1e6, None)}})
    without = Bars("batch 1", {"mha": {"64": (5e6, None)}, "gqa": {"64": (1e6, None)}})
    drawn = [bars([b], ["mha", "gqa"], "state (MB)", 1e6, "salt") for b in (with_formula, without)]
    assert [svg.count("LineCollection") for svg in drawn] == [1, 0]
