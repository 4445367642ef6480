"""Two revisions of this checkout side by side: git worktrees, and how a worker imports its own.

A worker finds `harness` through a folder that holds nothing but a link to the worktree's package:
with the worktree itself on the path its `kernels` folder would be an import package, and other
libraries look for one of that name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.errors import InfrastructureError, UsageError, printable
from harness.hardware.revision import git, resolve
from harness.records import Record
from harness.worker.job import Job

HERE = "."  # the checkout as it is, uncommitted changes included
# What git ignores and a worker may need: fetched models.
_SHARED = ("results/models",)
# What a side is asked before anything is measured: where its code is, and what it knows of a job.
_ASKED = """
import json, pathlib, harness
from harness.worker.job import Job
schema = Job.model_json_schema()
known = {name: list(part.get("properties", ())) for name, part in schema.get("$defs", {}).items()}
known["Job"] = list(schema["properties"])
folder = pathlib.Path(harness.__file__).resolve().parent.parent
print(json.dumps({"folder": str(folder), "known": known}))
"""
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Checkout:
    """One revision on disk."""

    name: str  # as it was asked for
    commit: str
    folder: Path  # its top
    imports: Path  # what holds its package and nothing else
    known: Mapping[str, frozenset[str]]  # the fields it knows of each record of a job

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables with which a worker imports this revision."""
        return _variables(self.imports)

    def written(self, job: Job) -> str:
        """The job as this revision reads it: without fields that it does not know.

        UsageError where such a field holds something else than its default.
        """
        return json.dumps(self._fitted(job))

    def _fitted(self, record: Record) -> dict[str, Any]:
        names = self.known.get(type(record).__name__)
        content = record.model_dump(mode="json")
        lean = record.model_dump(mode="json", exclude_defaults=True)
        for field in type(record).model_fields:
            value = getattr(record, field)
            if names is not None and field not in names:
                if field in lean:
                    raise UsageError(
                        f"{self.name} ({self.commit[:12]}) does not know '{field}', which the "
                        f"suite sets to {content[field]}; leave it out to compare the two"
                    )
                del content[field]
            elif isinstance(value, Record):
                content[field] = self._fitted(value)
        return content


def commit_of(name: str, checkout: Path) -> str:
    """The commit that a name stands for in a checkout. UsageError where there is none."""
    found = resolve("HEAD" if name == HERE else name, checkout)
    if found is None:
        if resolve("HEAD", checkout) is None:
            raise UsageError(f"{checkout} is no git checkout, so there are no revisions to compare")
        raise UsageError(
            f"'{printable(name)}' is no revision of {checkout}; of a shallow clone, fetch it "
            f"first: git fetch --depth=1 origin {printable(name)}"
        )
    return found


@contextmanager
def checked_out(base: str, head: str, checkout: Path) -> Iterator[tuple[Checkout, Checkout]]:
    """Worktrees of two revisions, which may be the same; gone when the block ends.

    Raises:
        UsageError: a name that is no revision, or no git checkout.
        InfrastructureError: git cannot make them, or a worker would import something else.
    """
    commits = [commit_of(name, checkout) for name in (base, head)]
    with TemporaryDirectory(prefix="harness-sides-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        try:
            base_side, head_side = (
                _side(wanted, commit, checkout, top / side)
                for wanted, commit, side in zip(
                    (base, head), commits, ("base", "head"), strict=True
                )
            )
            yield base_side, head_side
        finally:
            for side in ("base", "head"):
                if (top / side / "tree").exists():
                    git(checkout, "worktree", "remove", "--force", str(top / side / "tree"))


def _side(name: str, commit: str, checkout: Path, place: Path) -> Checkout:
    tree = checkout
    if name != HERE:
        tree = place / "tree"
        git(checkout, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        if not (tree / "harness").is_dir():
            raise InfrastructureError(
                f"git cannot check out {commit[:12]} to {tree}; 'git worktree prune' and some disk "
                "space may help"
            )
        _share(checkout, tree)
    imports = place / "imports"
    imports.mkdir(parents=True)
    (imports / "harness").symlink_to(tree / "harness")
    return Checkout(name, commit, tree, imports, _known(name, tree, imports))


def _share(checkout: Path, tree: Path) -> None:
    """Link what git does not carry over."""
    for name in _SHARED:
        if (checkout / name).is_dir() and not (tree / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                (tree / name).symlink_to(checkout / name)


def _variables(imports: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(imports)}


def _known(name: str, tree: Path, imports: Path) -> dict[str, frozenset[str]]:
    """What a worker of this side knows of a job, asked of its own code.

    InfrastructureError where that is another revision's: nothing may be measured then.
    """
    try:
        done = subprocess.run(
            (sys.executable, "-P", "-c", _ASKED),
            env={**os.environ, **_variables(imports)},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(f"cannot start {sys.executable}: {error}") from error
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise InfrastructureError(f"the worker of {name} cannot start: {last}") from None
    if Path(answer["folder"]) != tree.resolve():
        raise InfrastructureError(
            f"a worker of {name} would not import {tree}/harness but {answer['folder']}/harness; "
            "an install that comes before PYTHONPATH hides it"
        )
    return {record: frozenset(fields) for record, fields in answer["known"].items()}
