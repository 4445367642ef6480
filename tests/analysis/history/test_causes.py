"""Why a series moved: code, environment, the benchmark's definition, noise; and pooled cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from harness.analysis.history.causes import Moves, cause, pinned
from harness.analysis.history.findings import Finding
from harness.analysis.history.groups import findings as members
from harness.analysis.history.groups import groups, techniques_of
from harness.analysis.history.series import History

MakeHistory = Callable[..., History]
AT, NIGHTS, CASES = 20, 30, 8


def moved(random: np.random.Generator, which: range, factor: float = 1.05) -> dict[int, Any]:
    values = {}
    for case in range(1, CASES + 1):
        own = 1e6 * np.exp(0.005 * random.standard_normal(NIGHTS))
        if case in which:
            own[AT:] *= factor
        values[case] = own
    return values


FINDING = Finding(0, "step", "history", AT, AT, AT + 4, 0.05, 0.04, 0.06, 0.9)
ALL, ONE = range(1, CASES + 1), range(1, 2)
NEW_DRIVER = {p: {"environment_hash": "e2"} for p in range(AT, NIGHTS)}
NEW_SUITE = {p: {"suite_hash": "s2"} for p in range(AT, NIGHTS)}
SAME_CODE = {p: {"commit": "c" * 40} for p in range(NIGHTS)}


def both(*parts: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    return {p: {k: v for part in parts for k, v in part.get(p, {}).items()} for p in range(NIGHTS)}


@pytest.mark.parametrize(
    ("which", "nights", "expected"),
    [
        pytest.param(ONE, {}, "code", id="one case, a commit"),
        pytest.param(ALL, {}, "code", id="all cases, a commit"),
        pytest.param(ALL, both(SAME_CODE, NEW_DRIVER), "environment", id="all, a driver"),
        pytest.param(ALL, NEW_DRIVER, "environment", id="all, a driver and a commit"),
        pytest.param(ONE, both(SAME_CODE, NEW_DRIVER), "environment", id="one, a driver"),
        pytest.param(ONE, NEW_DRIVER, "unknown", id="one, a driver and a commit"),
        pytest.param(ALL, SAME_CODE, "environment", id="all, nothing recorded"),
        pytest.param(ONE, SAME_CODE, "noise", id="one, nothing"),
        pytest.param(ALL, both(SAME_CODE, NEW_SUITE), "definition", id="all, the suite"),
        pytest.param(ONE, both(SAME_CODE, NEW_SUITE), "definition", id="one, the suite"),
        pytest.param(ONE, NEW_SUITE, "code", id="one, a commit that touched the suite"),
    ],
)
def test_the_cause_is_what_else_changed(
    make_history: MakeHistory,
    random: np.random.Generator,
    which: range,
    nights: Mapping[int, Mapping[str, Any]],
    expected: str,
) -> None:
    history = make_history(moved(random, which), nights=nights)
    assert cause(FINDING, Moves(history))[0] == expected


def test_a_canary_that_moves_is_the_environment(
    make_history: MakeHistory, random: np.random.Generator
) -> None:
    """Pinned code cannot have done it, whatever was committed that night."""
    history = make_history(moved(random, range(1, 3)), nights={})
    canary = pinned(["mha B2 *"], history)
    assert canary == {2}
    assert cause(FINDING, Moves(history), canary)[0] == "environment"
    still = pinned(["mha B3 *"], history)
    assert cause(FINDING, Moves(history), still)[0] == "code"


def test_a_move_the_other_way_is_no_company(
    make_history: MakeHistory, random: np.random.Generator
) -> None:
    values = moved(random, ALL, 0.95)
    values[1] = 1e6 * np.where(np.arange(NIGHTS) < AT, 1.0, 1.05)
    history = make_history(values, nights=SAME_CODE)
    assert cause(FINDING, Moves(history))[0] == "noise"


def test_weak_evidence_is_pooled_over_a_technique(
    make_history: MakeHistory, random: np.random.Generator
) -> None:
    """2 % at 1.5 % noise shows in no case by itself; over twelve of one technique it does."""
    values, caches = {}, {}
    for case in range(1, 31):
        own = 1e6 * np.exp(0.015 * random.standard_normal(NIGHTS))
        if case <= 12:
            own[-3:] *= 1.02
            caches[case] = "paged"
        values[case] = own
    history = make_history(values, caches=caches)
    (group,) = groups(history, range(30))
    assert (group.technique, group.others) == ("paged", 18)
    assert group.members == tuple(range(12))
    found = members(group, history)
    assert {f.at for f in found} == {NIGHTS - 3}
    assert "paged: 12 cases moved +1.8% beside 18 others" in found[0].note


def test_a_bad_night_of_the_machine_is_no_group(
    make_history: MakeHistory, random: np.random.Generator
) -> None:
    values, caches = {}, {}
    for case in range(1, 31):
        own = 1e6 * np.exp(0.01 * random.standard_normal(NIGHTS))
        own[-3:] *= 1.05
        values[case] = own
        caches[case] = "paged" if case <= 12 else "contiguous"
    assert groups(make_history(values, caches=caches), range(30)) == []


def test_quiet_nights_make_groups_seldom(
    make_history: MakeHistory, random: np.random.Generator
) -> None:
    caches = {case: "paged" if case % 2 else "contiguous" for case in range(1, 31)}
    found = 0
    for _ in range(60):
        values = {
            case: 1e6 * np.exp(0.01 * random.standard_normal(NIGHTS)) for case in range(1, 31)
        }
        found += len(groups(make_history(values, caches=caches), range(30)))
    assert found <= 2


def test_a_groups_techniques_are_those_beside_the_baselines(make_history: MakeHistory) -> None:
    history = make_history({1: [1.0], 2: [1.0]}, caches={2: "paged"})
    assert techniques_of(history.cases[2]) == {"paged", "mha"} - {"mha"}
    assert techniques_of(history.cases[1]) == frozenset()
