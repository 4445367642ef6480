"""Two revisions side by side: what each worker imports, what it is told, and what is refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfrastructureError, UsageError
from harness.suite.case import Case, GateSettings, MeasureSettings
from harness.sweep.worktrees import HERE, checked_out, commit_of
from harness.worker.job import Job

MakeRepository = Callable[..., Path]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def test_each_side_imports_its_own_code_and_nothing_is_left_behind(
    make_repository: MakeRepository,
) -> None:
    repo = make_repository({"v1": 1_000_000, "v2": 2_000_000})
    with checked_out("v1", "v2", repo) as sides:
        places = [side.folder for side in sides]
        speeds = [
            subprocess.run(
                [sys.executable, "-P", "-c", "from harness.speed import NS; print(NS)"],
                env={**side.variables, "PATH": ""},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for side in sides
        ]
        assert speeds == ["1000000", "2000000"]
        # A folder of kernels on the path would be an import package to other libraries.
        assert [p.name for p in sides[0].imports.iterdir()] == ["harness"]
    assert not any(place.exists() for place in places)
    assert len(_git(repo, "worktree", "list").splitlines()) == 1


def test_the_same_revision_twice_and_the_checkout_as_it_is(
    make_repository: MakeRepository,
) -> None:
    repo = make_repository({"v1": 1_000_000, "v2": 2_000_000})
    (repo / "harness" / "speed.py").write_text("NS = 7")
    with checked_out("v2", HERE, repo) as (base, head):
        assert base.commit == head.commit
        assert head.folder == repo
        assert (base.folder / "harness" / "speed.py").read_text() == "NS = 2000000\n"


@pytest.mark.parametrize("name", ["nowhere", "--help", "v9", "HEAD~40", "a\nb", ""])
def test_a_revision_that_is_none_is_one_sentence(
    name: str, make_repository: MakeRepository
) -> None:
    repo = make_repository({"v1": 1})
    with pytest.raises(UsageError, match=r"is no revision of .*git fetch"):
        commit_of(name, repo)


def test_a_folder_that_is_no_checkout_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no git checkout"):
        commit_of("HEAD", tmp_path)


def test_a_side_without_the_package_is_refused(make_repository: MakeRepository) -> None:
    repo = make_repository({"v1": 1})
    _git(repo, "rm", "-rq", "harness")
    _git(repo, "commit", "-qm", "nothing left")
    with (
        pytest.raises(InfrastructureError, match="git cannot check out"),
        checked_out("v1", "HEAD", repo),
    ):
        raise AssertionError


def test_a_side_that_would_import_other_code_is_refused(make_repository: MakeRepository) -> None:
    """Nothing may be measured then: both sides would be one."""
    repo = make_repository({"v1": 1})
    (repo / "harness" / "__init__.py").write_text("__file__ = '/elsewhere/harness/__init__.py'")
    _git(repo, "commit", "-qam", "lies")
    with (
        pytest.raises(InfrastructureError, match=r"would not import .* but /elsewhere"),
        checked_out("v1", "HEAD", repo),
    ):
        raise AssertionError


def test_a_side_that_cannot_start_says_why(make_repository: MakeRepository) -> None:
    repo = make_repository({"v1": 1})
    (repo / "harness" / "worker" / "job.py").write_text("import nothing_like_it")
    _git(repo, "commit", "-qam", "broken")
    with (
        pytest.raises(InfrastructureError, match="No module named 'nothing_like_it'"),
        checked_out("HEAD", "v1", repo),
    ):
        raise AssertionError


def _job(case: Case, **fields: Any) -> Job:
    measure = MeasureSettings(**{k: v for k, v in fields.items() if k != "clock"})
    clock = fields.get("clock")
    return Job(
        case=case,
        measure=measure,
        gate=GateSettings(),
        seed=1,
        round=0,
        order_slot=0,
        clock=None if clock is None else str(clock),
    )


def test_an_older_side_is_told_only_what_it_knows(
    make_repository: MakeRepository, make_case: Callable[..., Case]
) -> None:
    """A key that came later is left out where it has its default, and refused where it has not."""
    repo = make_repository({"v1": 1}, unknown={"Job": ["clock"], "MeasureSettings": ["contended"]})
    with checked_out("v1", "v1", repo) as (base, _):
        told = json.loads(base.written(_job(make_case(), rounds=7)))
        assert "clock" not in told
        assert "contended" not in told["measure"]
        assert told["measure"]["rounds"] == 7
        assert told["case"]["workload"]["kind"] == "generate"
        with pytest.raises(UsageError, match="does not know 'contended', which the suite sets to"):
            base.written(_job(make_case(), contended="invalid"))


def test_a_side_that_knows_all_reads_the_job_as_it_is(
    make_repository: MakeRepository, make_case: Callable[..., Case]
) -> None:
    repo = make_repository({"v1": 1})
    job = _job(make_case(), rounds=7)
    with checked_out("v1", "v1", repo) as (base, _):
        assert Job.model_validate_json(base.written(job)) == job
