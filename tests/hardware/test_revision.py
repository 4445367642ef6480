"""The commit that was measured, in repositories made for the purpose."""

import os
import subprocess
from pathlib import Path

import pytest

from harness.hardware.revision import revision


def git(folder: Path, *arguments: str) -> str:
    identity = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for who in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@example.org"}
        identity |= {f"GIT_{who}_DATE": "2026-01-02T03:04:05+00:00"}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | identity,
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--initial-branch=main")
    (tmp_path / "a.py").write_text("one\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-m", "one")
    return tmp_path


def test_clean_checkout(repo: Path) -> None:
    row = revision(repo)
    assert row is not None
    assert row.commit == git(repo, "rev-parse", "HEAD")
    assert (row.parent, row.branch, row.dirty, row.diff_hash) == (None, "main", False, "")
    assert row.committed_at is not None
    assert row.committed_at.isoformat() == "2026-01-02T03:04:05+00:00"
    assert row.repo == repo.name


def test_second_commit_has_a_parent_and_a_detached_head_no_branch(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "--allow-empty", "-m", "two")
    git(repo, "checkout", "--detach")
    row = revision(repo)
    assert row is not None
    assert (row.parent, row.branch) == (first, None)


def test_changes_of_tracked_and_untracked_files_enter_the_hash(repo: Path) -> None:
    seen = {""}
    for name, text in (("a.py", "two\n"), ("new.py", "x\n"), ("new.py", "y\n")):
        (repo / name).write_text(text)
        row = revision(repo)
        assert row is not None
        assert row.dirty
        assert row.diff_hash not in seen
        seen.add(row.diff_hash)


def test_ignored_files_are_no_change(repo: Path) -> None:
    (repo / ".git" / "info" / "exclude").write_text("*.db\n")
    (repo / "harness.db").write_text("rows\n")
    row = revision(repo)
    assert row is not None
    assert not row.dirty


def test_what_a_sweep_writes_into_the_checkout_is_no_change(repo: Path) -> None:
    """`--db my.db` in the checkout made every --resume refuse, since "the code had changed"."""
    for name in ("my.db", "my.db-wal", "report.html", "run.log"):
        (repo / name).write_text("results\n")
    row = revision(repo)
    assert row is not None
    assert (row.dirty, row.diff_hash) == (False, "")


@pytest.mark.parametrize(
    ("url", "repo_name"),
    [
        ("https://user:secret@example.org/team/thing.git", "example.org/team/thing"),
        ("git@example.org:team/thing.git", "example.org/team/thing"),
        ("ssh://git@example.org:2222/team/thing", "example.org:2222/team/thing"),
    ],
)
def test_remote_is_named_without_user_or_password(repo: Path, url: str, repo_name: str) -> None:
    git(repo, "remote", "add", "origin", url)
    row = revision(repo)
    assert row is not None
    assert row.repo == repo_name


def test_nothing_to_say_outside_a_checkout(tmp_path: Path) -> None:
    assert revision(tmp_path) is None


def test_a_folder_inside_another_projects_checkout_is_not_that_project(repo: Path) -> None:
    inside = repo / "site-packages"
    inside.mkdir()
    assert revision(inside) is None


def test_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert revision(tmp_path) is None


def test_a_git_hook_does_not_point_elsewhere(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = revision(repo)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert revision(repo) == expected
