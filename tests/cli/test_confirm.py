"""`harness confirm`: what a night suspects becomes a comparison of two revisions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.analysis import paired_run
from harness.analysis.verdict import Change, Subject, Verdict, Verdicts
from harness.cli import build
from harness.cli.confirm import suspects
from harness.errors import HarnessError
from harness.report.verdicts import render
from harness.sweep import Order

A, B = "a" * 40, "b" * 40


def _night(*rows: tuple[str, str | None, bool], tool: Any = "regress") -> Verdicts:
    made = []
    for title, base, nominated in rows:
        about = Subject(case_hash=title, title=title, metric="tpot", unit="ns", direction="lower")
        change = Change(kind="step", state="nominated", from_revision=base, to_revision="c" * 40)
        made.append(
            Verdict(subject=about, verdict="unknown", reason="x", nominated=nominated,
                    change=change)
        )  # fmt: skip
    return Verdicts(tool=tool, title="t", at=datetime(2026, 12, 1, tzinfo=UTC), rows=tuple(made))


def _write(folder: Path, told: Verdicts) -> str:
    file = folder / "night.json"
    file.write_text(render(told, "json"))
    return str(file)


def test_suspects_are_grouped_by_the_last_good_commit() -> None:
    night = _night(("one", A, True), ("two", B, True), ("three", A, True), ("four", A, False),
                   ("five", None, True), ("one", A, True))  # fmt: skip
    assert suspects(night) == {A: ["one", "three"], B: ["two"]}


def test_the_largest_group_is_measured_against_the_nights_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Order, str, str, int | None]] = []

    def measure(order: Order, base: str, head: str, _db: Any, rounds: int, *_: Any) -> None:
        seen.append((order, base, head, rounds))
        raise KeyboardInterrupt

    monkeypatch.setattr(paired_run, "measure", measure)
    file = _write(tmp_path, _night(("mha B1 P48 N16", A, True), ("gqa B4 P48 N16", A, True),
                                   ("gqa B1 P48 N16", B, True)))  # fmt: skip
    found = CliRunner().invoke(build(), ["confirm", file, "quick"])
    ((order, base, head, rounds),) = seen
    assert (base, head, rounds) == (A, "HEAD", 16)
    assert [entry.case.title for entry in order.cases] == ["mha B1 P48 N16", "gqa B4 P48 N16"]
    assert order.argv[:5] == ("compare", "--run", A, "HEAD", "quick")
    assert f"not against {B[:12]}" in found.output


def test_a_quiet_night_needs_no_session(tmp_path: Path) -> None:
    found = CliRunner().invoke(build(), ["confirm", _write(tmp_path, _night()), "quick"])
    assert found.exit_code == 0
    assert "suspects nothing" in found.output


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), ("{}", "holds no verdicts"), ("compare", "and not of regress")],
)
def test_what_is_no_night_is_one_sentence(content: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    if content == "compare":
        _write(tmp_path, _night(tool="compare"))
    elif content is not None:
        file.write_text(content)
    error = CliRunner().invoke(build(), ["confirm", str(file), "quick"]).exception
    assert isinstance(error, HarnessError)
    assert said in str(error)
