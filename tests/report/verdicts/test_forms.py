"""Every form of verdicts tells the same rows, and each holds to its reader's rules."""

import io
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pydantic import ValidationError
from rich.console import Console

from harness.analysis.verdict import Subject, Verdict, Verdicts
from harness.errors import UsageError
from harness.exit_codes import ExitCode
from harness.report.verdicts import FORMS, add_summary, from_json, render, require_forms, write
from harness.report.verdicts.github import SHOWN
from harness.report.verdicts.markdown import SUMMARY_BYTES, cut
from harness.report.verdicts.markdown import render as markdown
from harness.report.verdicts.text import print_verdicts

ALARMING = ("mha B1 P128 N64", "cla B1 P128 N64")


@pytest.mark.parametrize("form", list(FORMS))
def test_every_form_names_what_alarms(form: str, verdicts: Verdicts) -> None:
    text = render(verdicts, form)
    for title in ALARMING:
        assert title in text, title
    assert "regret 0.39" in text


def test_an_unknown_form_and_an_unknown_ending_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown form 'jnuit'; did you mean 'junit'"):
        render(Verdicts(tool="compare", title="", at="2026-12-01T00:00:00Z"), "jnuit")
    with pytest.raises(
        UsageError, match=r"does not say which form .* \.txt, \.md, \.xml or \.json"
    ):
        require_forms([Path("out.csv")])


def test_files_take_the_form_of_their_ending(verdicts: Verdicts, tmp_path: Path) -> None:
    for ending, begins in ((".txt", "main"), (".md", "# main"), (".xml", "<?xml"), (".json", "{")):
        write(verdicts, tmp_path / f"out{ending}")
        assert (tmp_path / f"out{ending}").read_text().startswith(begins)
    with pytest.raises(UsageError, match=r"cannot write .*: No such file"):
        write(verdicts, tmp_path / "missing" / "out.md")


# Text


def _printed(told: Verdicts, everything: bool = False, **more: Any) -> str:
    out = io.StringIO()
    print_verdicts(Console(file=out, width=100, **more), told, everything=everything)
    return out.getvalue()


def test_absolute_values_stand_beside_every_ratio(verdicts: Verdicts) -> None:
    """Hoefler and Belli 2015, rule 1: a speed-up without its base case says nothing."""
    line = next(x for x in _printed(verdicts).splitlines() if x.startswith("mha B1"))
    assert re.search(r"1\.50 ms +1\.88 ms +0\.800x \[0\.792, 0\.808\] +8 +regressed", line)


def test_what_alarms_stands_first_and_the_answer_last(verdicts: Verdicts) -> None:
    lines = _printed(verdicts).splitlines()
    table = [x for x in lines if re.match(r"(mha|gqa|cla|mla) B", x)]
    assert [x.split(",")[0][:15].strip() for x in table[:2]] == list(ALARMING)
    assert lines[-1] == (
        "2 rows to look at: 2 regressed, 2 invalid, 1 improved, 2 unknown (1 nominated), 1 same."
    )


def test_a_large_grid_shows_what_a_reader_looks_for(many: Verdicts, verdicts: Verdicts) -> None:
    same = tuple(r for r in verdicts.rows if r.verdict == "same") * 60
    large = verdicts.model_copy(update={"rows": verdicts.rows + same})
    assert "61 rows" not in _printed(verdicts)
    assert "62 rows that are the same or unknown are left out; --all" in _printed(large)
    assert _printed(large, everything=True).count("  same") == 61


def test_text_is_ascii_and_survives_a_narrow_terminal(verdicts: Verdicts) -> None:
    assert _printed(verdicts).isascii()
    assert "0.800x [0.792, 0.808]" in _printed(verdicts)
    out = io.StringIO()
    print_verdicts(Console(file=out, width=30), verdicts)
    assert "0.800x [0.792, 0.808]" in out.getvalue()


def test_conditions_that_all_rows_share_are_said_once(verdicts: Verdicts) -> None:
    assert _printed(verdicts).count("tiny, torch, float32") == 1
    other = verdicts.rows[0].model_copy(
        update={"subject": verdicts.rows[0].subject.model_copy(update={"conditions": "zoo"})}
    )
    mixed = verdicts.model_copy(update={"rows": (*verdicts.rows, other)})
    assert _printed(mixed).count("tiny, torch, float32") >= len(verdicts.rows)


# Markdown and the step summary


def test_markdown_escapes_what_would_break_a_table(verdicts: Verdicts) -> None:
    text = markdown(verdicts)
    assert "regret 0.39 \\<logit\\> \\| NaN" in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if "times" in line
              and line.startswith("|")}  # fmt: skip
    assert widths == {9, 7}


def test_a_summary_is_cut_at_a_row_and_says_what_is_missing(many: Verdicts) -> None:
    """GitHub drops a summary above 1,024 KiB whole, with an error, and does not cut it."""
    whole = markdown(many)
    assert len(whole.encode()) > 1024 * 1024
    kept = cut(whole)
    assert len(kept.encode()) <= SUMMARY_BYTES < 1024 * 1024
    assert len(kept.encode()) > SUMMARY_BYTES - 2000
    lines = kept.splitlines()
    rows = [x for x in lines if x.startswith("|")]
    assert all(x.endswith("|") for x in rows)
    assert set(lines) - set(whole.splitlines()) <= {lines[-1], "", "</details>"}
    left = int(re.sub(r"\D", "", lines[-1].partition("rows")[0]))
    assert left == sum(x.startswith("|") for x in whole.splitlines()) - len(rows)
    assert all(title in kept for title in ALARMING)


def test_a_cut_closes_what_it_opened_and_leaves_what_fits_alone(verdicts: Verdicts) -> None:
    whole = markdown(verdicts)
    assert cut(whole) == whole
    at = whole.index("<details>") + 400
    kept = cut(whole, limit=at)
    assert kept.count("<details>") == kept.count("</details>") == 1
    assert len(kept.encode()) <= at


def test_letters_of_several_bytes_are_counted_as_such() -> None:
    text = "\n".join(["| ä |" * 10] * 100)
    assert len(cut(text, limit=2000).encode()) <= 2000


def test_summaries_are_added_and_never_overwritten(verdicts: Verdicts, tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    add_summary(verdicts, file)
    assert file.read_text().startswith("before\n# main")


# JUnit


def test_junit_has_the_shape_that_its_readers_take(verdicts: Verdicts) -> None:
    """Jenkins' junit-10.xsd: no `skipped` on testsuites, properties first and only there."""
    root = ElementTree.fromstring(render(verdicts, "junit"))
    assert root.tag == "testsuites"
    assert set(root.attrib) == {"name", "tests", "failures", "errors", "time"}
    (suite,) = root
    assert set(suite.attrib) == {
        "name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname",
    }  # fmt: skip
    tags = [child.tag for child in suite]
    assert tags == ["properties", *["testcase"] * len(verdicts.rows), "system-out", "system-err"]
    kinds = Counter(child.tag for case in suite.iter("testcase") for child in case)
    assert kinds == {"failure": 2, "error": 1, "skipped": 2, "system-out": 3}
    for name in ("failure", "error"):
        assert int(suite.attrib[f"{name}s"]) == int(root.attrib[f"{name}s"]) == kinds[name]
    assert int(suite.attrib["skipped"]) == kinds["skipped"]
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"classname", "name", "time"}


def test_junit_names_each_case_once(verdicts: Verdicts) -> None:
    """GitLab loses later cases of an equal classname and name."""
    twice = verdicts.model_copy(update={"rows": verdicts.rows * 2})
    root = ElementTree.fromstring(render(twice, "junit"))
    names = [(c.attrib["classname"], c.attrib["name"]) for c in root.iter("testcase")]
    assert len(set(names)) == len(names) == 2 * len(verdicts.rows)


def test_junit_holds_no_character_that_xml_cannot(verdicts: Verdicts) -> None:
    bad = verdicts.rows[5].model_copy(update={"reason": "bell \x07, null \x00, lone \udcff, é"})
    text = render(verdicts.model_copy(update={"rows": (bad,)}), "junit")
    (failure,) = ElementTree.fromstring(text.encode()).iter("failure")
    assert "bell ?, null ?, lone ?, é" in failure.attrib["message"]


# JSON


def test_json_is_strict_and_reads_back(verdicts: Verdicts) -> None:
    text = render(verdicts, "json")

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse)["format_version"] == 1
    assert from_json(text, "out.json") == verdicts


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format_version": 2}'])
def test_what_is_no_verdicts_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match=r"out\.json holds no verdicts"):
        from_json(text, "out.json")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_no_number_that_json_cannot_hold_gets_in(value: float) -> None:
    about = Subject(case_hash="c", title="t", metric="tpot", unit="ns", direction="lower")
    for field in ("base", "head", "ratio", "ci_low", "ci_high", "smallest"):
        with pytest.raises(ValidationError):
            Verdict.model_validate(
                {"subject": about, "verdict": "unknown", "reason": "x", field: value}
            )


# GitHub's annotations


def test_annotations_have_a_level_for_each_kind_of_row(verdicts: Verdicts) -> None:
    lines = render(verdicts, "annotations").splitlines()
    levels = Counter(line.split(" ")[0] for line in lines)
    assert levels == {"::error": 2, "::warning": 2, "::notice": 1}


def test_nothing_in_a_row_can_start_another_command(verdicts: Verdicts) -> None:
    evil = verdicts.rows[5].model_copy(update={"reason": "x\n::set-env name=A::b\r\n100 % : ,"})
    told = verdicts.model_copy(update={"rows": (evil, verdicts.rows[0])})
    (line,) = render(told, "annotations").splitlines()
    assert line.endswith("x%0A::set-env name=A::b%0D%0A100 %25 : ,")
    assert line.startswith("::error title=cla B1 P128 N64%2C tiny%2C ")


def test_more_than_github_shows_is_said(many: Verdicts) -> None:
    lines = [x for x in render(many, "annotations").splitlines() if x.startswith("::notice")]
    assert len(lines) == SHOWN
    assert f"and {9001 - SHOWN + 1} more" in lines[-1]


def test_nothing_measured_is_a_warning() -> None:
    empty = Verdicts(tool="compare", title="a", at="2026-12-01T00:00:00Z")
    assert render(empty, "annotations").startswith("::warning title=harness compare::Nothing was")


# Exit codes


def test_exit_codes_tell_a_regression_from_a_night_that_measured_nothing(
    verdicts: Verdicts,
) -> None:
    """edtechre/pybroker#287: a gate failed with nothing measured, and was read as a regression."""
    calm = tuple(row for row in verdicts.rows if not row.alarm)
    assert verdicts.exit_code is ExitCode.NEGATIVE
    assert verdicts.model_copy(update={"rows": calm}).exit_code is ExitCode.GOOD
    assert verdicts.model_copy(update={"rows": ()}).exit_code is ExitCode.NOTHING_MEASURED
    change = verdicts.rows[7].change
    assert change is not None
    stopped = verdicts.rows[5].model_copy(
        update={"change": change.model_copy(update={"kind": "stopped"})}
    )
    only = verdicts.model_copy(update={"rows": (stopped,)})
    assert only.exit_code is ExitCode.NOTHING_MEASURED
    beside = verdicts.model_copy(update={"rows": (stopped, *calm)})
    assert beside.exit_code is ExitCode.NEGATIVE


# The text of an issue


def test_an_issue_holds_what_github_takes(
    many: Verdicts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from harness.report.verdicts.__main__ import main

    file = tmp_path / "night.json"
    file.write_text(render(many, "json"))
    monkeypatch.setattr("sys.argv", ["x", str(file), "--link", "https://example.org/run"])
    assert main() == 0
    text = capsys.readouterr().out
    assert len(text.encode()) < 64 * 1024
    assert all(title in text for title in ALARMING)
    assert "left out; see https://example.org/run" in text
    monkeypatch.setattr("sys.argv", ["x", str(tmp_path / "none.json")])
    assert main() == 2
    assert "cannot read" in capsys.readouterr().err
