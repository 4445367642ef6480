"""Public series: RocksDB's benchmark as noise to put steps into, labelled ones from a folder.

RocksDB's runs ship beside this file (its licence, Apache-2.0, stands in it). Labelled collections
have licences of their own, so they are read from a folder that the user has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.evaluate.grid import SEED, STEPS
from harness.analysis.evaluate.trials import AFTER, BEFORE, Floats, Trial, generator
from harness.errors import UsageError

# Runs of a revision that upstream repeats among all others, as its own check of the machine.
CANARY = "39a4ff2cab"
WINDOW, STRIDE = 50, 4
# Where the Turing Institute's annotated series lie in a folder, as one JSON file.
TURING = "tcpd_univariate.json"


@dataclass(frozen=True)
class Labelled:
    """A series that several people marked, in either direction."""

    name: str
    values: Floats
    marks: tuple[tuple[int, ...], ...]  # positions, a tuple for each person


def rocksdb(seed: int = SEED) -> list[Trial]:
    """Windows of RocksDB's eight tests as seconds an operation, each as it is and with every step.

    Most neighbouring runs are of one revision, and upstream marks no change between the others; the
    level wanders by 1 to 7 % all the same, which is what a real machine does.
    """
    text = (resources.files("harness.analysis.evaluate") / "rocksdb_2023.json").read_text("utf-8")
    return list(_windows(json.loads(text)["tests"], seed))


def turing(folder: Path) -> list[Labelled]:
    """The series of `tcpd_univariate.json` in that folder or below; UsageError where there is none.

    Format: {"series": {name: {"values": [...], "annotations": {person: [positions]}}}}.
    """
    found = sorted(folder.rglob(TURING))
    if not found:
        raise UsageError(f"--data {folder} holds no {TURING}")
    try:
        series: dict[str, Any] = json.loads(found[0].read_text("utf-8"))["series"]
        return [
            Labelled(
                name,
                np.array(entry["values"], dtype=float),
                tuple(tuple(int(p) for p in marks) for marks in entry["annotations"].values()),
            )
            for name, entry in series.items()
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{found[0]} is not in the format of annotated series: {error}") from error


def _windows(tests: dict[str, Any], seed: int) -> Iterator[Trial]:
    for test, runs in tests.items():
        rates = np.array(
            [
                rate
                for rate, commit in zip(runs["ops_sec"], runs["commit"], strict=True)
                if commit != CANARY
            ],
            dtype=float,
        )
        starts = range(0, len(rates) - WINDOW + 1, STRIDE)
        for start, step in product(starts, (0.0, *STEPS)):
            values = 1e9 / rates[start : start + WINDOW]
            name = f"rocksdb/{test}/from {start}/step {step:.0%}"
            yield _stepped(name, values, step, seed)


def _stepped(name: str, values: Floats, step: float, seed: int) -> Trial:
    differences = np.abs(np.diff(np.log(values)))
    noise = 1.4826 * float(np.median(differences)) / np.sqrt(2)
    truth = None
    if step:
        truth = int(generator(seed, name).integers(BEFORE, len(values) - AFTER + 1))
        values[truth:] *= 1 + step
    return Trial(name, values, truth, "rocksdb", noise, step)


def agreement(series: Sequence[Labelled], found: Sequence[Sequence[int]], margin: int = 5) -> float:
    """Mean F1 over series against several people's marks, the start of a series counted as found.

    Precision is against the marks of anybody, recall is the mean over people (van den Burg and
    Williams, An evaluation of change point detection algorithms, 2020, section 4).
    """
    return float(
        np.mean([_f1(s, set(f) | {0}, margin) for s, f in zip(series, found, strict=True)])
    )


def _f1(series: Labelled, found: set[int], margin: int) -> float:
    people = [set(marks) | {0} for marks in series.marks]
    anybody = set().union(*people)
    precision = _matched(anybody, found, margin) / len(found)
    recall = float(np.mean([_matched(marks, found, margin) / len(marks) for marks in people]))
    return 2 * precision * recall / (precision + recall)


def _matched(truths: set[int], found: set[int], margin: int) -> int:
    """How many truths have a finding of their own within the margin."""
    left = set(found)
    matched = 0
    for truth in sorted(truths):
        near = [f for f in left if abs(f - truth) <= margin]
        if near:
            left.remove(min(near, key=lambda f: abs(f - truth)))
            matched += 1
    return matched
