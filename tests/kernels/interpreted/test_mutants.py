"""The gate of each kernel refuses a fixed sample of its mutants: some of every file's.

`tests/acceptance/kernel_mutants.py` without `--sample` takes all of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness import registry
from harness.gates.mutation import equivalents, generated, sources
from harness.paths import root

NAMES = [name for name in registry.kernel_names() if registry.kernel(name).triton is not None]
SAMPLE = 5


def test_a_sample_of_the_mutants_is_refused() -> None:
    """In a process of its own, because mutants are forks of it."""
    script = root() / "tests" / "acceptance" / "kernel_mutants.py"
    done = subprocess.run(
        [sys.executable, str(script), "--sample", str(SAMPLE), "--workers", "1"],
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-2000:]}"
    assert done.stdout.count(f"{SAMPLE} of ") == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_there_are_mutants_enough_of_every_kernel(name: str) -> None:
    assert len(generated(registry.kernel(name))) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_what_is_listed_as_equivalent_is_a_mutant_and_says_why(name: str) -> None:
    keys = {mutant.key for mutant in generated(registry.kernel(name))}
    for each in equivalents(name):
        assert each.key in keys, "listed and not generated any more"
        assert len(each.reason) > 20


def test_a_kernel_is_mutated_with_what_it_imports() -> None:
    """Both attention kernels run the same tiles; their mutants belong to the folder they lie in."""
    found = [source.module for source in sources(registry.kernel("decode_attention"))]
    tiles = "harness.kernels.prefill_attention.tiles"
    parts = "harness.kernels.decode_attention.parts"
    assert found == [parts, tiles, "harness.kernels.decode_attention.kernel"]
    own = {mutant.module for mutant in generated(registry.kernel("prefill_attention"))}
    assert own == {tiles, "harness.kernels.prefill_attention.kernel"}
