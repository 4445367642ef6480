"""What this host and its software are said to be."""

import subprocess
import sys
from importlib.metadata import version

import psutil
import pytest

from harness.errors import InfrastructureError
from harness.hardware.cpu import cpu
from harness.hardware.detection import detect
from harness.hardware.environment import environment


def test_cpu_is_this_machine() -> None:
    host = cpu()
    assert host.memory_bytes == psutil.virtual_memory().total
    assert 1 <= host.cores <= (psutil.cpu_count() or 1)
    assert [level for level, _ in host.caches] == sorted({level for level, _ in host.caches})
    if host.caches:
        assert host.last_cache_bytes == host.caches[-1][1]


def test_cpu_row_has_a_stable_identity() -> None:
    row = detect("cpu")
    assert row.kind == "cpu"
    assert row.identity_hash == detect("cpu").identity_hash
    assert row.memory_bytes % 1024**3 == 0


def test_asking_for_a_gpu_that_is_not_there_is_one_sentence() -> None:
    import torch

    if torch.cuda.is_available():
        assert detect("cuda").kind == "cuda"
        return
    with pytest.raises(InfrastructureError, match="no GPU was found"):
        detect("cuda")


def test_environment_names_versions_without_importing_torch() -> None:
    program = (
        "import sys\n"
        "from harness.hardware.detection import detect\n"
        "from harness.hardware.environment import environment\n"
        "from harness.hardware.revision import revision\n"
        "print(environment().torch, detect('cpu').kind, revision() is None)\n"
        "import harness.hardware.estimate\n"
        "assert not {'torch', 'triton', 'numpy'} & set(sys.modules), sorted(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == [version("torch"), "cpu"]


def test_environment_keeps_settings_and_leaves_secrets_and_places_out() -> None:
    given = {
        "OMP_NUM_THREADS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "TRITON_CACHE_DIR": "/somewhere",
        "CUDA_VISIBLE_DEVICES": "3",
        "TORCH_TOKEN": "secret",
        "HOME": "/root",
    }
    row = environment(given)
    assert row.variables == {
        "OMP_NUM_THREADS": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    assert row.hash == environment(given).hash
    assert row.hash != environment({}).hash


def test_environment_matches_torch_itself() -> None:
    import torch

    assert environment({}).cuda == (torch.version.cuda or torch.version.hip)
