"""Traces: both formats are read to the token, and every fault is a sentence with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.suite import traces

CSV = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109

2023-11-16 18:15:50.9951690,1,1
"""
JSONL = """\
{"timestamp": 27482, "input_length": 1100, "output_length": 52, "hash_ids": [46, 47, 2353]}
{"timestamp": 30535, "input_length": 600, "output_length": 26, "hash_ids": [46, 47]}
"""


def _file(folder: Path, text: str, name: str = "mine.csv") -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_csv_is_read_to_the_nanosecond(tmp_path: Path) -> None:
    rows = traces.read(_file(tmp_path, CSV)).rows
    assert [(r.at_ns, r.prompt_tokens, r.new_tokens) for r in rows] == [
        (0, 374, 44),
        (4_314_579_000, 396, 109),
        (4_314_579_000, 1, 1),
    ]


def test_columns_go_by_their_names(tmp_path: Path) -> None:
    text = "ContextTokens,Model,TIMESTAMP,GeneratedTokens\n7,x,2024-02-29T00:00:00,9\n"
    (row,) = traces.read(_file(tmp_path, text)).rows
    assert (row.at_ns, row.prompt_tokens, row.new_tokens) == (0, 7, 9)


def test_jsonl_is_read_with_its_blocks(tmp_path: Path) -> None:
    rows = traces.read(_file(tmp_path, JSONL, "mine.jsonl")).rows
    assert [r.at_ns for r in rows] == [0, 3_053_000_000]
    assert [r.blocks for r in rows] == [(46, 47, 2353), (46, 47)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            ",GeneratedTokens",
            "",
            "line 1: the column 'GeneratedTokens' is missing; a trace has TIM",
        ),
        ("396,109", "396,-3", "line 3: GeneratedTokens is -3; it must be from 1 to"),
        ("396,109", "0,109", "line 3: ContextTokens is 0; it must be from 1 to"),
        ("396,109", "3e2,109", "line 3: ContextTokens is '3e2', no whole number"),
        ("396,109", "396,", "line 3: GeneratedTokens is '', no whole number"),
        ("396,109", "99999999999,109", "line 3: ContextTokens is 99999999999; it must be from"),
        ("396,109", "396", "line 3: 2 values stand under 3 columns"),
        ("18:15:46", "18:15:56", "line 3: its time is 5.68542 s before that of the line above"),
        (
            "2023-11-16 18:15:50.9951690,1,",
            "2123-11-16 18:15:50,1,",
            "line 5: its time is 36,524 d",
        ),
        (
            "2023-11-16 18:15:50.9951690,1,",
            "2023-13-16 18:15:50,1,",
            "line 5: TIMESTAMP is '2023-1",
        ),
        ("2023-11-16 18:15:50.9951690,1,", "soon,1,", "line 5: TIMESTAMP is 'soon', no time such"),
    ],
)
def test_a_fault_in_csv_has_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CSV
    with pytest.raises(UsageError) as caught:
        traces.read(_file(tmp_path, CSV.replace(old, new, 1)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"output_length": 26', '"out": 26', "line 2: the key 'output_length' is missing"),
        ('"output_length": 26', '"output_length": -1', "line 2: output_length is -1; it must be"),
        ('"output_length": 26', '"output_length": 2.5', "line 2: output_length is '2.5', no whole"),
        ('"output_length": 26', '"output_length": true', "line 2: output_length is 'True', no wh"),
        ("30535", "27481", "line 2: its time is 0.001 s before that of the line above"),
        ("30535", "1e99", "line 2: timestamp is '1e+99', no number of milliseconds"),
        ("30535", "NaN", "line 2: timestamp is 'nan', no number of milliseconds"),
        ("30535", "-1", "line 2: timestamp is '-1', no number of milliseconds"),
        ("[46, 47]", "[46]", "line 2: 1 hash_ids stand for a prompt of 600 tokens; it has 2"),
        ("[46, 47]", '"46"', "line 2: hash_ids is no list of whole numbers"),
        ("[46, 47]}", "[46, 47]", "line 2: this is no JSON"),
        ('{"timestamp": 30535', '[1]\n{"timestamp": 30535', "line 2: a request is an object with"),
    ],
)
def test_a_fault_in_jsonl_has_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in JSONL
    with pytest.raises(UsageError) as caught:
        traces.read(_file(tmp_path, JSONL.replace(old, new, 1), "mine.jsonl"))
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "TIMESTAMP,ContextTokens,GeneratedTokens\n"])
def test_an_empty_file_is_no_trace(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"missing|holds no request"):
        traces.read(_file(tmp_path, text))


def test_what_is_no_file_is_a_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'azure-2023-code'"):
        traces.read("azure-2023-cod")
    file = tmp_path / "latin.csv"
    file.write_bytes(b"TIMESTAMP\n\xe4")
    with pytest.raises(UsageError, match="line 2: the text is not UTF-8"):
        traces.read(str(file))


def test_the_shipped_ones_are_what_their_readme_says() -> None:
    found = {name: traces.read(name).rows for name in traces.shipped()}
    assert {name: len(rows) for name, rows in found.items()} == {
        "azure-2023-code": 2000,
        "azure-2023-conversation": 6000,
        "mooncake-2025-synthetic": 2000,
    }
    conversation = found["azure-2023-conversation"]
    assert round(sum(r.prompt_tokens for r in conversation) / 6000) == 1151
    assert round(sum(r.new_tokens for r in conversation) / 6000) == 253
    assert round(6000 / conversation[-1].at_ns * 1e9, 1) == 5.0
    code = found["azure-2023-code"]
    assert round(sum(r.prompt_tokens for r in code) / 2000) == 1987
    assert round(sum(r.new_tokens for r in code) / 2000) == 30
    seen: set[int] = set()
    again = total = 0
    for row in found["mooncake-2025-synthetic"]:
        total += len(row.blocks)
        for block in row.blocks:
            if block not in seen:
                break
            again += 1
        seen.update(row.blocks)
    assert round(again / total, 2) == 0.33
    assert not any(row.blocks for row in code)
