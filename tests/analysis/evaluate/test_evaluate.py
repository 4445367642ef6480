"""The benchmark of detectors: its series, its counting, its peers, and what ours must reach."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.evaluate import grid, otava, ours, peers, public, run, table
from harness.analysis.evaluate.confirmed import confirmed
from harness.analysis.evaluate.nightly import Setup, planted, quiet
from harness.analysis.evaluate.score import Alert, news, score
from harness.analysis.evaluate.trials import AFTER, BEFORE, Trial, half_of, of_half
from harness.errors import UsageError


@pytest.fixture(scope="module")
def trials() -> list[Trial]:
    """A twelfth of the tuning half, of every kind."""
    return of_half(grid.grid(), "tuning")[::12]


def test_the_grid_is_the_one_that_the_baselines_were_measured_on() -> None:
    made = grid.grid()
    assert len(made) == 2560
    assert sum(t.truth is None for t in made) == 960
    assert set(Counter(t.scenario for t in made).values()) == {640}
    for trial in made:
        if trial.truth is not None:
            assert BEFORE <= trial.truth <= len(trial.values) - AFTER


def test_a_trial_follows_from_its_name() -> None:
    one, other = grid.grid()[77], grid.grid()[77]
    assert np.array_equal(one.values, other.values)
    assert not np.array_equal(one.values, grid.grid(seed=8)[77].values)


def test_halves_share_nothing_and_are_about_equal() -> None:
    names = [t.name for t in (*grid.grid(), *public.rocksdb())]
    held = [n for n in names if half_of(n) == "held"]
    assert 0.45 < len(held) / len(names) < 0.55
    assert len(set(names)) == len(names)


def test_rocksdbs_noise_is_real_and_its_steps_are_put_in() -> None:
    made = public.rocksdb()
    assert len({t.name.split("/")[1] for t in made}) == 8
    plain = {t.name.rpartition("/")[0]: t for t in made if t.truth is None}
    for trial in made:
        if trial.truth is not None:
            ratio = trial.values / plain[trial.name.rpartition("/")[0]].values
            assert np.allclose(ratio[: trial.truth], 1)
            assert np.allclose(ratio[trial.truth :], 1 + trial.step)


def trial(truth: int | None, nights: int = 30, step: float = 0.05) -> Trial:
    return Trial("t", np.ones(nights), truth, "plain", 0.01, step if truth else 0.0)


def test_counting_on_alerts_with_a_known_answer() -> None:
    made = [trial(20), trial(20), trial(None), trial(None)]
    said = [[Alert(22, 18), Alert(29, 10)], [Alert(25, 25)], [Alert(12, 11)], []]
    found = score(made, said)
    assert (found.steps, found.hits, found.false, found.quiet_false) == (2, 1, 3, 1)
    assert found.quiet_nights == 42
    assert found.delays == (2,)
    assert found.precision == 0.25
    assert found.recall == 0.5
    assert found.f1 == pytest.approx(1 / 3)
    assert found.false_per_100_nights == pytest.approx(100 / 42)
    assert found.clear_recall == 0.5


def test_two_alerts_around_a_step_are_one_step_found_and_none_is_wrong() -> None:
    found = score([trial(20), trial(None)], [[Alert(21, 18), Alert(25, 22)], []])
    assert (found.hits, found.right, found.false) == (1, 2, 0)
    assert found.precision == found.recall == found.f1 == 1.0
    assert found.delays == (1,)


def test_a_series_with_missing_values_is_read_on() -> None:
    """Two annotated series have gaps; a NaN would make every probability one."""
    values = np.append(np.full(30, 100.0), np.full(30, 130.0)) + np.tile((0.0, 0.4), 30)
    values[[0, 12, 29, 45]] = np.nan
    found, nothing = ours.offline([values, np.full(40, np.nan)])
    assert found == [30]
    assert nothing == []


def test_what_is_near_is_no_news() -> None:
    said = [Alert(10, 8), Alert(11, 9), Alert(12, 11), Alert(13, 12), Alert(14, 8)]
    assert [a.at for a in news(said)] == [8, 12]


def test_a_detector_that_never_fires_scores_nothing(trials: list[Trial]) -> None:
    found = score(trials, [[] for _ in trials])
    assert (found.recall, found.f1, found.precision) == (0.0, 0.0, None)


def test_ours_reaches_its_targets(trials: list[Trial]) -> None:
    """On few series, with room for their number; the whole half stands in the command's table."""
    alerts = ours.detect(trials)
    found = score(trials, alerts)
    assert found.f1 is not None
    assert found.clear_recall is not None
    assert found.false_per_100_nights is not None
    assert found.f1 >= 0.6
    assert found.clear_recall >= 0.85
    assert found.false_per_100_nights <= 0.4
    assert (found.delay(0.5) or 0) <= 4
    held = score(trials, confirmed(trials, alerts, 1))
    assert held.false_per_100_nights is not None
    assert held.false_per_100_nights <= 0.1


def test_ours_beats_the_simple_peers_on_the_same_series(trials: list[Trial]) -> None:
    best = score(trials, ours.detect(trials)).f1 or 0.0
    for name in ("two-sigma, last 20", "Mann-Whitney 20 v 5, p < .01"):
        other = score(trials, peers.PEERS[name]()(trials)).f1
        assert other is not None
        assert other < best, name


@pytest.mark.parametrize("name", sorted(peers.PEERS))
def test_every_peer_finds_a_plain_step_and_no_step_down(name: str) -> None:
    random = np.random.default_rng(4)
    values = 100 * np.exp(0.005 * random.standard_normal(40))
    up, down = values.copy(), values.copy()
    up[25:] *= 1.1
    down[25:] /= 1.1
    made = [Trial(n, v, 25, "plain", 0.005, 0.1) for n, v in (("up", up), ("down", down))]
    found = peers.PEERS[name]()(made)
    assert any(abs(a.at - 25) <= 3 for a in found[0])
    assert not any(abs(a.at - 25) <= 2 for a in found[1])


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(UsageError, match=r"ruptures is not installed; pip install"):
        peers.PEERS["PELT, penalty 5"]()


def test_otava_needs_a_python_that_has_it() -> None:
    with pytest.raises(UsageError, match="does not run"):
        otava.replay(Path("/nowhere/python"), [trial(20)], 0.001, 0.0)
    with pytest.raises(UsageError, match="could not run Otava: ModuleNotFoundError"):
        otava.replay(Path(sys.executable), [trial(20)], 0.001, 0.0)


def test_otavas_answer_is_read(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\ncat > /dev/null\necho '[[[[12, 9], [13, 10], [20, 18]]]]'\n")
    fake.chmod(0o755)
    assert otava.replay(fake, [trial(20)], 0.001, 0.0) == [[Alert(12, 9), Alert(20, 18)]]


def test_annotated_series_are_read_from_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no tcpd_univariate"):
        public.turing(tmp_path)
    file = tmp_path / public.TURING
    file.write_text('{"series": {"a": {"values": [1, 2], "annotations": {"1": [1], "2": []}}}}')
    (one,) = public.turing(tmp_path)
    assert one.marks == ((1,), ())
    assert public.agreement([one], [[1]]) == pytest.approx(1.0)
    file.write_text('{"series": 3}')
    with pytest.raises(UsageError, match="not in the format"):
        public.turing(tmp_path)


def test_the_tables_hold_every_row() -> None:
    made = list(run.rows("tuning", peers=False, collections=("grid",), every=120))
    assert [row.name for row in made] == [run.OURS, run.CONFIRMED]
    lines = [table.heading(), *(table.line(row) for row in made), *table.power(made)]
    assert len({len(line) for line in lines[:3]}) == 1
    errors = run.night_errors("tuning", every=40)
    assert [round(error, 2) for _, error, _ in errors] == [1.0, 0.82, 0.77]
    assert len(table.night_errors(errors)) == 5
    assert table.blind_spot(made)


def test_quiet_months_alarm_nobody_and_planted_slowdowns_are_found() -> None:
    """The whole way from noise to alarm, at a tenth of the size that the acceptance script runs."""
    setup = Setup(cases=100, history=30)
    calm = quiet(setup, 12)
    assert calm.alarm_nights == 0
    assert 0 < calm.candidates < 0.05 * 12 * setup.cases
    found = planted(setup, 0.03, 0.03, 6)
    assert found.planted == 18
    assert found.false_alarms == 0
    assert found.found[-1] >= 15
    nothing = planted(setup, 0.0, 0.03, 2)
    assert nothing.found[-1] == 0
