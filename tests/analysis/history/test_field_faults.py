"""Faults that users of other tools reported on comparing, averaging and alarming: each has a test.

`FAULTS` is the map: the thread, and what went wrong there. A test that pins one names the thread in
its docstring, wherever it stands; those without a better place are below.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest

from harness.analysis.detect.replay import replay
from harness.analysis.evaluate.peers import library
from harness.analysis.history.branch import in_line
from harness.analysis.history.findings import judge
from harness.analysis.history.look import look
from harness.analysis.history.series import History, Key, Series
from harness.exit_codes import ExitCode
from harness.metrics import METRICS
from harness.paths import root

MakeHistory = Callable[..., History]

# Thread to fault. What was faulty in measuring and in gates is pinned where those are tested.
FAULTS = {
    "airspeed-velocity/asv#1617": "a fall of throughput is shown as an improvement",
    "airspeed-velocity/asv#932": "three steps of 4 % under a threshold of 5 % are never reported",
    "airspeed-velocity/asv#881": "a spike of one commit is reported as a change",
    "airspeed-velocity/asv#933": "the range that is reported does not hold the change",
    "airspeed-velocity/asv#752": "what noise hides is silently left out",
    "treeverse/dvc-bench#105": "a regression that was mended later is not in the list",
    "mui/mui-public#1712": "samples of one process are taken for independent ones",
    "MaterializeInc/materialize#38810": "flagged cells alarm without being run again",
    "microsoft/mssql-rs#435": "a second look in the same session confirms the same bias",
    "prisma/orm#29804": "one quick run before is the baseline, and the next commit is charged",
    "folo-rs/folo#429": "a calibrated clock rate makes a machine new; findings are one-sided",
    "folo-rs/folo#482": "directions are sorted out after the false discoveries were counted",
    "folo-rs/folo#491": "a split that was searched for is tested like one that was given",
    "apache/groovy#2787": "a rate is alarmed on when it rises",
    "cloud-bulldozer/orion#263": "a change is declared at its second point",
    "apache/otava#150": "a single spike becomes two changes",
    "edtechre/pybroker#287": "a gate fails, or passes, when nothing was measured",
    "pytorch/rl#4292": "hundreds of noisy series stay red, and a month without data is unnoticed",
    "pytorch/test-infra#7445": "one report holds hundreds of regressed cells that are none",
    "ionelmc/pytest-benchmark#255": "a clock read as 0.1 % slower is another machine",
    "ionelmc/pytest-benchmark#276": "another machine is a hard error about an option",
    "NVIDIA/nvbench#231": "a strict filter for throttling leaves nothing, and says nothing",
    "flashinfer-ai/flashinfer#2899": "clocks fall by 15 % and the numbers are kept as good",
    "lance0/rustbgpd#566": "a commit to documents fails, the interval reaching from -3 to +3 %",
    "namecheap/fast_mail_parser#128": "the same commit differs by 26 % across runners",
    "NVIDIA/warp#1142": "shared runners raise false alarms of 10 to 30 %",
    "sgl-project/sglang#21157": "the baseline is another job's",
    "sgl-project/sglang#39651": "rows with a warm and with a flushed cache look alike",
    "sgl-project/sglang#4533": "everything failed and the table is empty, or full of NaN",
    "sgl-project/sglang#1585": "a request of one token makes the mean undefined",
    "ggml-org/llama.cpp#22815": "one case out of memory ends the sweep",
}


def _docstrings() -> dict[str, str]:
    """The docstring of every test function that checks something, by file and name."""
    found = {}
    for file in sorted((root() / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                checks = any(
                    isinstance(part, ast.Assert)
                    or (isinstance(part, ast.Attribute) and part.attr == "raises")
                    for part in ast.walk(node)
                )
                found[f"{file.name}::{node.name}"] = (ast.get_docstring(node) or "") * checks
    return found


@pytest.fixture(scope="module")
def docstrings() -> dict[str, str]:
    return _docstrings()


@pytest.mark.parametrize("thread", FAULTS)
def test_the_fault_has_a_test_that_names_it(thread: str, docstrings: dict[str, str]) -> None:
    name = re.compile(rf"\b{re.escape(thread.rpartition('/')[2])}\b")
    assert any(name.search(text) for text in docstrings.values()), FAULTS[thread]


def _series(values: np.ndarray, metric: str = "tpot") -> Series:
    nights = len(values)
    places = np.arange(nights, dtype=np.intp)
    errors = np.full(nights, np.nan)
    return Series(Key(1, 1, "measured", metric), METRICS[metric], places, values, errors)


def _noisy(random: np.random.Generator, nights: int, sd: float) -> np.ndarray:
    return np.asarray(1e6 * np.exp(sd * random.standard_normal(nights)))


def test_the_suspected_range_holds_the_change() -> None:
    """asv#933: a large step is seen before it has lasted; it was placed on the night before."""
    random = np.random.default_rng(3)
    inside = exact = 0
    for _ in range(60):
        logs = 0.01 * random.standard_normal(30)
        at = int(random.integers(12, 25))
        logs[at:] += 0.2
        (step, *_) = [s for s in replay([logs])[0] if s.worse]
        inside += step.first <= at <= step.at
        exact += step.at == at
    assert inside == 60
    assert exact >= 58


def test_what_noise_hides_is_said(make_history: MakeHistory) -> None:
    """asv#752: a series in which 5 % could not be seen is no series in which nothing changed."""
    random = np.random.default_rng(4)
    history = make_history({1: _noisy(random, 40, 0.06), 2: _noisy(random, 40, 0.002)})
    noisy, calm = look(history, [], [], history.nights[-1].started_at).verdicts.rows
    assert noisy.verdict == "unknown"
    assert "noisy: a change below" in noisy.reason
    assert (noisy.smallest or 0) > 0.05
    assert (calm.verdict, calm.reason) == ("same", "")


def test_a_split_that_was_searched_for_is_no_given_one() -> None:
    """folo#491: the best split of a quiet series passes a t test at 1 % in most of them."""
    random, ttest_ind = np.random.default_rng(5), library("scipy.stats").ttest_ind
    logs = [0.01 * random.standard_normal(60) for _ in range(60)]
    naive = sum(
        min(ttest_ind(x[:at], x[at:]).pvalue for at in range(4, len(x) - 3)) < 0.01 for x in logs
    )
    assert naive > 6
    assert sum(bool(steps) for steps in replay(logs)) <= 1


def test_noisy_series_are_shown_and_do_not_fail_the_night(make_history: MakeHistory) -> None:
    """pytorch/rl#4292: 60 series at 5 to 30 % are no regression on any night, and no alarm."""
    random = np.random.default_rng(6)
    values = {n: _noisy(random, 40, float(random.uniform(0.05, 0.3))) for n in range(1, 61)}
    history = make_history(values)
    told = look(history, [], [], history.nights[-1].started_at + timedelta(hours=8)).verdicts
    assert len(told.rows) == 60
    assert told.alarms == ()
    assert told.exit_code is ExitCode.GOOD


@pytest.mark.parametrize("metric", ["tpot", "throughput"])
def test_one_lucky_night_charges_nobody(metric: str) -> None:
    """prisma/orm#29804: the parent ran twice as fast by luck, the child was charged 2.04 times."""
    random = np.random.default_rng(7)
    values = _noisy(random, 40, 0.01)
    values[38] *= 0.5 if metric == "tpot" else 2.0
    (found,) = judge([_series(values, metric)])
    assert [f for f in found.findings if f.worse and f.kind != "noise"] == []


def test_a_runner_of_another_kind_is_another_series(make_history: MakeHistory) -> None:
    """NVIDIA/warp#1142, prisma/orm#29804: nights of two devices are two lines, never one."""
    history = make_history({1: [1e6] * 12})
    rows = [
        night if place % 2 else type(night)(**{**vars(night), "hardware_id": 2})
        for place, night in enumerate(history.nights)
    ]
    # The older commit of the other device is no look back.
    backwards = [*rows[1::2], *rows[0::2]]
    line, refused = in_line(backwards, None)
    assert len(line) == 12
    assert refused == []
