"""Request traces: when requests came, how long they were, and which began alike. No torch.

Two formats, told apart by what the first line is: CSV with the header of the Azure traces, and JSON
lines with the keys of Mooncake's. A fault is one sentence with the line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from harness import paths
from harness.errors import UsageError, printable, printable_path, unknown

# Tokens that one of Mooncake's ids stands for.
BLOCK_TOKENS = 512
# No trace that is replayed in real time lasts longer, and no published prompt is.
_MOST_SECONDS = 30 * 86_400
_MOST_TOKENS = 16_777_216
_HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_KEYS = ("timestamp", "input_length", "output_length")
# Seconds with any number of digits: more than the six that datetime reads.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d+)?")


@dataclass(frozen=True)
class TraceRow:
    """One request of a trace."""

    at_ns: int  # after the first one
    prompt_tokens: int
    new_tokens: int
    blocks: tuple[int, ...] = ()  # ids of the prompt's blocks of BLOCK_TOKENS, the last cut short


@dataclass(frozen=True)
class Trace:
    """A whole trace, in order of time."""

    name: str
    digest: str  # of the file's bytes
    rows: tuple[TraceRow, ...]


def shipped() -> dict[str, Path]:
    """Traces that come with the project, by name."""
    folder = paths.suites() / "data"
    return {
        file.stem: file for file in sorted(folder.glob("*.csv")) + sorted(folder.glob("*.jsonl"))
    }


def read(name: str) -> Trace:
    """A shipped trace by its name, or one by its path.

    Raises UsageError for a name that is neither, and for a file that is no trace; a fault in it
    is named with its line.
    """
    file = shipped().get(name)
    if file is None:
        file = Path(name)
        if not file.is_file():
            raise unknown("trace", name, shipped())
    return _read(file, str(name))


@cache
def _read(file: Path, name: str) -> Trace:
    shown = printable_path(name)
    try:
        raw = file.read_bytes()
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the trace {shown} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{shown}, line {line}: the text is not UTF-8") from error
    parsed = _jsonl(text, shown) if text.lstrip().startswith("{") else _csv(text, shown)
    rows: list[TraceRow] = []
    first = before = 0
    for line, row in parsed:
        if not rows:
            first = before = row.at_ns
        if row.at_ns < before:
            raise UsageError(
                f"{shown}, line {line}: its time is {(before - row.at_ns) / 1e9:g} s before that "
                "of the line above; sort the trace by time"
            )
        if row.at_ns - first > _MOST_SECONDS * 10**9:
            days = (row.at_ns - first) / 86400e9
            raise UsageError(
                f"{shown}, line {line}: its time is {days:,.0f} days after the first; a trace "
                f"lasts {_MOST_SECONDS // 86_400} days at most"
            )
        before = row.at_ns
        rows.append(TraceRow(row.at_ns - first, row.prompt_tokens, row.new_tokens, row.blocks))
    if not rows:
        raise UsageError(f"the trace {shown} holds no request")
    return Trace(name, hashlib.sha256(raw).hexdigest(), tuple(rows))


def _csv(text: str, shown: str) -> Iterator[tuple[int, TraceRow]]:
    """Rows of a CSV file, columns by the names of its first line."""
    lines = text.splitlines()
    header = [name.strip() for name in lines[0].split(",")] if lines else []
    for name in _HEADER:
        if name not in header:
            raise UsageError(
                f"{shown}, line 1: the column '{name}' is missing; a trace has {', '.join(_HEADER)}"
            )
    at, context, generated = map(header.index, _HEADER)
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        cells = line.split(",")
        where = f"{shown}, line {number}"
        if len(cells) != len(header):
            raise UsageError(f"{where}: {len(cells)} values stand under {len(header)} columns")
        yield (
            number,
            TraceRow(
                _stamp(cells[at].strip(), where),
                _count(_whole(cells[context]), cells[context], _HEADER[1], where),
                _count(_whole(cells[generated]), cells[generated], _HEADER[2], where),
            ),
        )


def _jsonl(text: str, shown: str) -> Iterator[tuple[int, TraceRow]]:
    """Rows of a file with a JSON object a line."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{shown}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{where}: this is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise UsageError(f"{where}: a request is an object with {', '.join(_KEYS)}")
        for key in _KEYS:
            if key not in row:
                raise UsageError(f"{where}: the key '{key}' is missing")
        time, prompt, new = (row[key] for key in _KEYS)
        # A trace may begin at any number: an epoch in ms is one too.
        if type(time) not in (int, float) or not 0 <= time < 1e14:
            raise UsageError(f"{where}: timestamp is {_shown(time)}, no number of milliseconds")
        tokens = _count(prompt, prompt, _KEYS[1], where)
        blocks = row.get("hash_ids", [])
        if not isinstance(blocks, list) or any(type(block) is not int for block in blocks):
            raise UsageError(f"{where}: hash_ids is no list of whole numbers")
        if blocks and len(blocks) != -(-tokens // BLOCK_TOKENS):
            raise UsageError(
                f"{where}: {len(blocks)} hash_ids stand for a prompt of {tokens} tokens; it has "
                f"{-(-tokens // BLOCK_TOKENS)} blocks of {BLOCK_TOKENS}"
            )
        new = _count(new, new, _KEYS[2], where)
        yield number, TraceRow(round(time * 1e6), tokens, new, tuple(blocks))


def _whole(cell: str) -> Any:
    """A cell's whole number, or the cell itself where it holds none."""
    text = cell.strip()
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text


def _count(value: Any, given: Any, name: str, where: str) -> int:
    """A number of tokens."""
    if type(value) is not int:
        raise UsageError(f"{where}: {name} is {_shown(given)}, no whole number")
    if not 1 <= value <= _MOST_TOKENS:
        raise UsageError(f"{where}: {name} is {value}; it must be from 1 to {_MOST_TOKENS:,}")
    return value


def _stamp(text: str, where: str) -> int:
    """A time in ns, from year, month, day and seconds, in UTC."""
    match = _TIME.fullmatch(text)
    try:
        whole = datetime.fromisoformat(match[1]) if match else None
    except ValueError:
        whole = None
    if match is None or whole is None:
        raise UsageError(
            f"{where}: TIMESTAMP is {_shown(text)}, no time such as 2023-11-16 18:15:46.68"
        )
    fraction = (match[2] or ".0")[1:10].ljust(9, "0")
    return int(whole.replace(tzinfo=UTC).timestamp()) * 10**9 + int(fraction)


def _shown(value: object) -> str:
    return f"'{printable(str(value), 40)}'"
