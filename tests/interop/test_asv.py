"""Export to asv: its own commands read it, and its step detector names a planted step."""

import json
import math
import os
import random
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.analysis.results import results
from harness.errors import UsageError
from harness.hardware.identity import RevisionRow
from harness.interop.asv.export import Exported, export
from harness.interop.asv.values import unit, value
from harness.metrics import METRICS
from harness.paths import root
from harness.store.rows import StoredRun, SweepRow

COMMITS, STEP = 40, 25


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository of many commits with this one's asv.conf.json, and the commits, oldest first."""
    folder = tmp_path_factory.mktemp("repository")
    stream = "".join(
        f"commit refs/heads/main\nmark :{n + 1}\n"
        f"committer t <t@t> {1_700_000_000 + 86_400 * n} +0000\ndata 2\nc\n"
        + (f"from :{n}\n" if n else "")
        for n in range(COMMITS)
    )
    _run(folder, "git", "init", "-q", "-b", "main")
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=stream, text=True,
                   check=True)  # fmt: skip
    (folder / "asv.conf.json").write_text((root() / "asv.conf.json").read_text())
    return folder, _run(folder, "git", "rev-list", "--reverse", "main").split()


def _night(
    example: ModuleType, commit: str, n: int, runs: list[StoredRun], **fields: Any
) -> tuple[SweepRow, Any]:
    row: SweepRow = example.row()
    revision = RevisionRow(
        repo="r", commit=commit, committed_at=example.STARTED - timedelta(days=COMMITS - n)
    )
    more = {"revision": revision, "id": n, "started_at": example.STARTED + timedelta(days=n)}
    return row.model_copy(update={**more, **fields}), results(runs)


def _runs(example: ModuleType, source: random.Random, factor: float) -> list[StoredRun]:
    """Two cases of three processes; the second's rate changes by `factor`, its bytes never."""
    runs: list[StoredRun] = []
    for batch, times in ((1, 1.0), (8, factor)):
        of = example.case("gqa", batch)
        made = [
            example.record(of, r, metrics={
                "tpot": 2e6 * math.exp(source.gauss(0, 0.005)),
                "throughput": 500 * times * math.exp(source.gauss(0, 0.005)),
                "state_bytes": 4096.0,
                "intensity": 0.5,
                "itl_p99": None,
            })
            for r in range(3)
        ]  # fmt: skip
        runs += example.stored(of, *made, first_id=1 + len(runs))
    return runs


@pytest.fixture(scope="module")
def exported(repository: tuple[Path, list[str]], example_sweep: ModuleType) -> Exported:
    """Throughput of one case falls by 10 % at one commit."""
    folder, commits = repository
    source = random.Random(3)
    nights = [
        _night(example_sweep, commit, n, _runs(example_sweep, source, 0.9 if n >= STEP else 1.0))
        for n, commit in enumerate(commits)
    ]
    return export(nights, folder / ".asv" / "results", frozenset(commits))


def test_publish_names_the_case_and_the_commit_of_a_planted_step(
    repository: tuple[Path, list[str]], exported: Exported
) -> None:
    """airspeed-velocity/asv#1617: a fall of throughput is a regression, as its reciprocal."""
    folder, commits = repository
    assert (exported.commits, exported.left_out) == (COMMITS, ())
    _run(folder, sys.executable, "-m", "asv", "publish", "--no-pull")
    index = json.loads((folder / ".asv/html/index.json").read_text())
    found = json.loads((folder / ".asv/html/regressions.json").read_text())["regressions"]
    (regression,) = found
    name, _, _, _, last, best, jumps = regression
    assert name == "throughput_reciprocal('gqa B8 P128 N64, tiny, torch, float32, 1 thread')"
    assert last / best == pytest.approx(1 / 0.9, rel=0.01)
    before, after = jumps[0][:2]
    hashes = index["revision_to_hash"]
    assert hashes[str(after)] == commits[STEP]
    assert before is None or hashes[str(before)] == commits[STEP - 1]


def test_show_and_compare_read_it(repository: tuple[Path, list[str]], exported: Exported) -> None:
    folder, commits = repository
    asv = (sys.executable, "-m", "asv")
    shown = _run(folder, *asv, "show", commits[-1])
    assert "tpot" in shown
    assert "2.00" in shown or "1.99" in shown or "2.01" in shown
    compared = _run(folder, *asv, "compare", "--factor", "1.05", commits[0], commits[-1])
    worse = [line for line in compared.splitlines() if line.startswith("| +")]
    assert len(worse) == 1
    assert "throughput_reciprocal('gqa B8 P128 N64" in worse[0]


def test_what_is_written_is_strict_json_without_versions_in_the_key(
    repository: tuple[Path, list[str]], exported: Exported
) -> None:
    """A driver in `params` begins a new line with each update, and no step is seen across it."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    folder, commits = repository
    files = sorted((folder / ".asv/results").rglob("*.json"))
    assert len(files) == COMMITS + 2
    for file in files:
        content = json.loads(file.read_text(), parse_constant=refuse)
        assert "version" in content
        if "commit_hash" in content:
            assert set(content["params"]) == {"arch", "cpu", "machine", "num_cpu", "os", "ram"}
            assert (content["requirements"], content["env_vars"], content["python"]) == ({}, {}, "")
            assert content["commit_hash"] in commits
    names = set(json.loads((folder / ".asv/results/benchmarks.json").read_text()))
    assert names == {"tpot", "throughput_reciprocal", "state_bytes", "version"}


def test_statistics_are_over_processes(
    repository: tuple[Path, list[str]], exported: Exported
) -> None:
    folder, commits = repository
    (file,) = (folder / ".asv/results").rglob(f"{commits[0][:8]}-harness.json")
    content = json.loads(file.read_text())
    row = dict(zip(content["result_columns"], content["results"]["tpot"], strict=True))
    assert row["stats_repeat"] == [3, 3]
    assert [len(s) for s in row["samples"]] == [3, 3]
    assert row["stats_ci_99_a"][0] < row["result"][0] < row["stats_ci_99_b"][0]


def test_smaller_is_better_whatever_the_metric() -> None:
    assert value(METRICS["tpot"], 2e6) == 2e-3
    assert unit(METRICS["tpot"]) == "seconds"
    assert value(METRICS["throughput"], 500) == 2e-3
    assert unit(METRICS["throughput"]) == "seconds/token"
    assert unit(METRICS["achieved_bandwidth"]) == "seconds/byte"
    assert value(METRICS["throughput"], 0) is None
    assert value(METRICS["state_bytes"], 4096) == 4096
    assert unit(METRICS["token_agreement"]) == "1/ratio"


def test_what_asv_could_not_place_is_left_out_with_the_reason(
    tmp_path: Path, example_sweep: ModuleType
) -> None:
    runs = _runs(example_sweep, random.Random(1), 1.0)
    good, a, b, c = ("c" * 40, "a" * 40, "b" * 40, "d" * 40)
    nights = [
        _night(example_sweep, good, 0, runs),
        _night(example_sweep, a, 1, runs, revision=None),
        _night(example_sweep, b, 2, runs),
        _night(example_sweep, good, 4, runs, argv=("compare", "--run", "a", "b", "decode")),
        _night(example_sweep, good, 3, runs, revision=RevisionRow(
            repo="r", commit=c, committed_at=example_sweep.STARTED, dirty=True, diff_hash="d")),
    ]  # fmt: skip
    done = export(nights, tmp_path / "results", frozenset([good, a, c]))
    assert done.commits == 1
    assert [why for _, why in done.left_out] == [
        "its commit is not known",
        f"commit {b[:12]} is not in the repository",
        "it is a compare, and no sweep of a night",
        "it had uncommitted changes",
    ]


def test_the_newest_sweep_of_a_commit_counts(tmp_path: Path, example_sweep: ModuleType) -> None:
    of = example_sweep.case("gqa")
    nights = [
        _night(example_sweep, "a" * 40, n, example_sweep.rounds(of, "tpot", [ns, ns]))
        for n, ns in enumerate((1e6, 2e6))
    ]
    export(nights, tmp_path, None)
    (file,) = tmp_path.rglob("aaaaaaaa-harness.json")
    assert json.loads(file.read_text())["results"]["tpot"][0] == [0.002]


def test_cases_of_one_label_stay_apart(tmp_path: Path, example_sweep: ModuleType) -> None:
    """Two checkpoints of one model are two cases, and must not overwrite each other."""
    runs = [
        *example_sweep.rounds(example_sweep.case("gqa", checkpoint_hash="a" * 64), "tpot", [1e6]),
        *example_sweep.rounds(example_sweep.case("gqa", checkpoint_hash="b" * 64), "tpot", [2e6]),
    ]
    export([_night(example_sweep, "a" * 40, 0, runs)], tmp_path, None)
    (labels,) = json.loads((tmp_path / "benchmarks.json").read_text())["tpot"]["params"]
    assert len(set(labels)) == 2


@pytest.mark.parametrize("nothing", ["sweeps", "numbers"])
def test_nothing_to_export_is_one_sentence(
    nothing: str, tmp_path: Path, example_sweep: ModuleType
) -> None:
    of = example_sweep.case("gqa")
    failed = example_sweep.stored(of, example_sweep.record(of, 0, "crashed", reason="x"))
    nights = [] if nothing == "sweeps" else [_night(example_sweep, "a" * 40, 0, failed)]
    with pytest.raises(UsageError, match="nothing to export to asv"):
        export(nights, tmp_path, None)


def test_benchmarks_are_generated_from_the_suites_that_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every case of a suite is a parameter of each metric; asv sees nothing else."""
    import importlib

    suite = tmp_path / "tiny-suite.yaml"
    suite.write_text(
        "suite: tiny\nstacks: [mha, gqa]\nmodel: tiny\n"
        "workload: {kind: generate, batch: [1, 2], prompt_tokens: 8, new_tokens: 4}\n"
    )
    monkeypatch.setenv("HARNESS_ASV_SUITES", f"{suite},no-such-suite")
    module = importlib.reload(importlib.import_module("harness.interop.asv.benchmarks.suites"))
    made = {name: f for name, f in vars(module).items() if name.startswith("track_")}
    assert set(made) == {f"track_tiny_suite_{m}" for m in module.TRACKED if m != "kernel_time"}
    # asv takes the function's own name: under one name, all metrics would be one benchmark.
    assert {function.__name__ for function in made.values()} == set(made)
    track = made["track_tiny_suite_throughput"]
    (labels,) = track.params
    assert labels[0] == "mha B1 P8 N4, tiny, torch, float32, 1 thread"
    assert len(labels) == 4
    assert (track.unit, track.param_names) == ("seconds/token", ["case"])
    numbers = {str(suite): {"throughput": {labels[0]: 0.5}}}
    assert track(numbers, labels[0]) == 0.5
    assert math.isnan(track(numbers, labels[1]))
