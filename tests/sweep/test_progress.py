import io
from collections.abc import Callable

import pytest
from rich.console import Console

from harness.run import RunRecord
from harness.suite.case import Case
from harness.sweep.progress import duration, for_console

MakeCase = Callable[..., Case]
MakeRecord = Callable[..., RunRecord]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1m00s"), (185, "3m05s"), (7800, "2h10m")],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def tell(terminal: bool, make_case: MakeCase, make_record: MakeRecord) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    case = make_case()
    with for_console(console) as progress:
        progress.begin(3, 60.0)
        progress.start(case, 1)
        progress.finish(case, make_record(case), 2.5, 40.0)
        progress.note("a note with [brackets]")
        progress.start(case, 2)
        progress.finish(case, make_record(case, "crashed", number=2), 3.0, 0.0)
        progress.skip(1)
    return file.getvalue()


def test_plain_lines(make_case: MakeCase, make_record: MakeRecord) -> None:
    assert tell(False, make_case, make_record).splitlines() == [
        "3 runs, about 1m00s",
        "[1/3] mha B1 P8 N4, round 1: ok in 2.5 s; 40 s left",
        "a note with [brackets]",
        "[2/3] mha B1 P8 N4, round 2: crashed (made crashed) in 3.0 s; done",
    ]


def test_bar_shows_time_left_and_keeps_failures(
    make_case: MakeCase, make_record: MakeRecord
) -> None:
    text = tell(True, make_case, make_record)
    assert "40 s left" in text
    assert "2/2" in text
    assert "crashed (made crashed)" in text
    assert "a note with [brackets]" in text
