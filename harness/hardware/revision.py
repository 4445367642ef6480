"""Which code was measured: the git commit of the harness, and what was changed on top of it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from harness.hardware.identity import RevisionRow

_CHECKOUT = Path(__file__).resolve().parents[2]
# Untracked files of other kinds (a database, a report, a log) are no code: a sweep that writes its
# own database into the checkout must not change what it was measured with.
_CODE = (".py", ".yaml", ".yml", ".toml", ".json", ".safetensors")
# Larger untracked files (weights) enter the hash by name and size alone.
_HASHED_BYTES = 16 * 1024**2
_TIMEOUT_SECONDS = 30


def revision(folder: Path = _CHECKOUT) -> RevisionRow | None:
    """Commit, parent, branch, time and uncommitted changes of the checkout at `folder`.

    None where there is nothing to say: git is missing, `folder` is not the top of a checkout with
    a commit, or the harness is installed somewhere inside another project's checkout.
    """
    top = git(folder, "rev-parse", "--show-toplevel")
    commit = git(folder, "rev-parse", "--verify", "HEAD")
    if top is None or commit is None or Path(top).resolve() != folder.resolve():
        return None
    diff_hash = _diff_hash(folder)
    committed = git(folder, "show", "--no-patch", "--format=%ct", "HEAD")
    return RevisionRow(
        repo=_repo(folder),
        commit=commit,
        parent=git(folder, "rev-parse", "--verify", "--quiet", "HEAD^"),
        branch=git(folder, "symbolic-ref", "--quiet", "--short", "HEAD"),
        committed_at=datetime.fromtimestamp(int(committed), UTC) if committed else None,
        dirty=bool(diff_hash),
        diff_hash=diff_hash,
    )


def resolve(name: str, folder: Path = _CHECKOUT) -> str | None:
    """The commit that a name stands for: a branch, a tag, "HEAD~3"; None where there is none."""
    if name.startswith("-") or not name.isprintable():
        return None  # an option of git, or nothing that could name anything
    return git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def _repo(folder: Path) -> str:
    """Host and path of the remote, without scheme, user or password; else the folder's name."""
    url = git(folder, "remote", "get-url", "origin")
    if not url or "/" not in url.strip("/") or url.startswith(("/", ".", "file:")):
        return folder.resolve().name
    bare = re.sub(r"^[a-z+]+://", "", url)
    bare = re.sub(r"^[^/@]*@", "", bare).removesuffix(".git")
    return re.sub(r"^([^/:]+):(?!\d)", r"\1/", bare)


def _diff_hash(folder: Path) -> str:
    """SHA-256 over the changes of tracked files and untracked code; "" for a clean tree."""
    diff = _git_bytes(folder, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv")
    listed = _git_bytes(folder, "ls-files", "--others", "--exclude-standard", "-z")
    names = (os.fsdecode(name) for name in (listed or b"").split(b"\0"))
    untracked = sorted(name for name in names if name.endswith(_CODE))
    if not diff and not untracked:
        return ""
    digest = hashlib.sha256(diff or b"")
    for name in untracked:
        path = folder / name
        # A file may vanish between listing and reading; its name is then all there is to say.
        size = path.stat().st_size if path.is_file() else 0
        digest.update(b"\0" + os.fsencode(name) + b"\0" + str(size).encode() + b"\0")
        if path.is_file() and size <= _HASHED_BYTES:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def git(folder: Path, *arguments: str) -> str | None:
    """What git prints in that folder, stripped; None where it fails, or prints nothing."""
    answer = _git_bytes(folder, *arguments)
    return answer.decode(errors="replace").strip() or None if answer is not None else None


def _git_bytes(folder: Path, *arguments: str) -> bytes | None:
    """Standard output of git, None when it failed or is missing."""
    # Inside a git hook these point at another repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", f"safe.directory={folder.resolve()}", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            [*command, "-C", str(folder), *arguments],
            capture_output=True,
            env=variables,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
