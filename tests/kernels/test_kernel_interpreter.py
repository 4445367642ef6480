"""Run the tests of `interpreted/` in a process where Triton interprets, one file each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent / "interpreted").glob("test_*.py"))

pytest.importorskip("triton", reason="Triton exists on Linux only")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_interpreted(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", str(file), "-q", "-n0", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"


def test_there_is_something_to_run() -> None:
    assert FILES
