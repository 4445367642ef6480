"""What answers at once imports nothing heavy; bad input ends in one sentence and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "torch", "triton", "pandas", "sqlalchemy", "alembic", "streamlit", "matplotlib", "transformers",
    "numpy", "tokenizers", "safetensors",
}  # fmt: skip


# `list kernels` and `list sweeps` read the store, and with it SQLAlchemy.
COMMANDS = [
    "--help", "list --help", "list techniques", "list suites", "list models",
    "list metrics", "show gqa", "show tiny", "suite check decode", "suite schema",
    "new technique --help", "sweep --help",
]  # fmt: skip


def test_nothing_heavy_is_imported() -> None:
    """All in one process: what none of them imports is missing after each of them."""
    code = (
        "import json, sys\n"
        "from harness.cli import main\n"
        f"for command in {COMMANDS!r}:\n"
        "    sys.argv = ['harness', *command.split()]\n"
        "    try:\n        main()\n"
        "    except SystemExit as error:\n        assert not error.code, (command, error.code)\n"
        f"    heavy = sorted(set(sys.modules) & {HEAVY!r})\n"
        "    assert not heavy, (command, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["list", "tecniques"], "harness: unknown kind of thing 'tecniques'; did you mean"),
        (["show", "gqaa"], "harness: unknown name 'gqaa'; did you mean 'gqa'?"),
        (["suite", "check", "no.yaml"], "harness: unknown suite file 'no.yaml'"),
        (["new", "technique", "mine", "--slot", "cach"], "harness: unknown slot 'cach'"),
        (["list", "techniques", "--plugin-path", "/no"], "harness: plugin path '/no' is not a"),
        # A suite of that name could be read, and then neither job nor row be written.
        (["sweep", "a\udcff.yaml"], "harness: the argument 'a\\udcff.yaml' is not utf-8"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_2(
    tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["list", "metrics"], ["suite", "schema"]], ids="-".join)
def test_a_full_disk_below_the_output_is_one_sentence(arguments: list[str]) -> None:
    """`harness list metrics > /full/disk` ended in a traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.stderr == "harness: no disk space left for what is printed; free some\n"
    assert done.returncode == 2
