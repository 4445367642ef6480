"""The table in a terminal: ASCII, within the width, with colours only where there are any."""

import io
import re
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from harness.analysis.results import results
from harness.report.terminal import print_sweep


def _printed(example: ModuleType, width: int, *, terminal: bool = False) -> str:
    out = io.StringIO()
    colours: Any = "standard" if terminal else None
    console = Console(file=out, width=width, force_terminal=terminal, color_system=colours)
    print_sweep(console, example.row(), results(example.runs()))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_lines_fit_and_are_ascii(width: int, example_sweep: ModuleType) -> None:
    text = _printed(example_sweep, width)
    assert text.isascii()
    too_long = [line for line in text.splitlines() if len(line) > max(width, 64)]
    assert too_long == []
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert "\x1b" not in text


def test_a_wide_terminal_has_more_columns_and_the_same_numbers(example_sweep: ModuleType) -> None:
    narrow, wide = _printed(example_sweep, 80), _printed(example_sweep, 140)
    assert "roofline" not in narrow
    assert "roofline" in wide
    ratios = re.findall(r"\d+\.\d+x \[[\d., ]+\]", narrow)
    assert len(ratios) == 10
    assert ratios == re.findall(r"\d+\.\d+x \[[\d., ]+\]", wide)


@pytest.mark.parametrize("width", range(10, 60, 7))
def test_a_narrow_terminal_cuts_no_number(width: int, example_sweep: ModuleType) -> None:
    """With COLUMNS=30 a time of 35.8 ms was printed as "35."."""
    rows = re.compile(r"^  mha[^ ]* +\d.*", re.MULTILINE)
    narrow, wide = (rows.findall(_printed(example_sweep, shown)) for shown in (width, 80))
    assert len(narrow) == len(wide) > 3
    for cut, whole in zip(narrow, wide, strict=True):
        assert f"{whole}  ".startswith(f"{cut}  ")


def test_conditions_stand_above_the_table_and_failures_below(example_sweep: ModuleType) -> None:
    text = _printed(example_sweep, 100)
    places = [text.index(word) for word in ("hardware", "time/token", "\nFailed", "\nGrowth")]
    assert places == sorted(places)


def test_a_terminal_shows_verdicts_in_colour(example_sweep: ModuleType) -> None:
    text = _printed(example_sweep, 120, terminal=True)
    assert re.search(r"\x1b\[32m *1\.75x", text)
    assert re.search(r"\x1b\[31m *0\.0652x", text)


def test_a_very_long_reason_wraps_under_itself(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    run = example_sweep.record(of, 1, "error", reason="word " * 100 + "x" * 300)
    out = io.StringIO()
    print_sweep(Console(file=out, width=80), example_sweep.row(), results([
        *example_sweep.stored(of, run)
    ]))  # fmt: skip
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_markup_in_a_reason_is_text(example_sweep: ModuleType) -> None:
    of = example_sweep.case("mha")
    run = example_sweep.record(of, 1, "error", reason="index [red]0[/red] of [T, D]")
    out = io.StringIO()
    print_sweep(Console(file=out, width=99), example_sweep.row(), results(
        example_sweep.stored(of, run)
    ))  # fmt: skip
    assert "index [red]0[/red] of [T, D]" in out.getvalue()
