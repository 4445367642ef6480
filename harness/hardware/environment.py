"""The software around a measurement: versions and settings, read without importing torch."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.hardware import nvml
from harness.hardware.cpu import governor, turbo
from harness.hardware.identity import EnvironmentRow

# Settings of the libraries that compute. A change of one starts an epoch, so places of files and
# the choice of a device, which differ between jobs without moving a number, are left out.
_PREFIXES = (
    "ATEN_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GOMP_", "HIP_", "HSA_", "KMP_", "MALLOC_",
    "MKL_", "NCCL_", "NVIDIA_TF32_", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTORCH_", "ROCBLAS_",
    "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TRITON_",
)  # fmt: skip
_NAMES = ("LD_PRELOAD", "PYTHONDEVMODE", "PYTHONOPTIMIZE")
_NO_SETTING = re.compile(r"_(DIR|HOME|PATH|DEVICES|TOKEN|KEY|SECRET|PASSWORD|VERSION)$")


def environment(variables: Mapping[str, str] | None = None) -> EnvironmentRow:
    """Driver, libraries, Python, system, container, power limit, clocks and settings.

    Args:
        variables: in place of the process's own environment variables.
    """
    given = os.environ if variables is None else variables
    gpus = nvml.gpus()
    return EnvironmentRow(
        driver=nvml.driver(),
        cuda=_torch_constant("cuda") or _torch_constant("hip"),
        torch=_version("torch"),
        triton=_version("triton"),
        python=platform.python_version(),
        os=_system(),
        container=_container(given),
        power_limit_w=gpus[0].power_limit_w if gpus else None,
        clocks=_clocks(gpus),
        variables=_settings(given),
    )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _torch_constant(name: str) -> str | None:
    """A line `name: Optional[str] = '13.0'` of torch's version file, without importing torch."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    file = Path(spec.submodule_search_locations[0], "version.py")
    if not file.is_file():
        return None
    found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([^'\"]+)['\"]", file.read_text(), re.MULTILINE)
    return found[1] if found else None


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # not a Linux, or one without the file
        name = platform.platform()
    return f"{name}, {platform.system()} {platform.release()}"


def _container(variables: Mapping[str, str]) -> str | None:
    if "KUBERNETES_SERVICE_HOST" in variables:
        return "kubernetes"
    if Path("/run/.containerenv").exists():
        return "podman"
    if Path("/.dockerenv").exists():
        return "docker"
    return variables.get("container")  # systemd-nspawn, LXC and others set it


def _clocks(gpus: list[nvml.Gpu]) -> dict[str, Any]:
    """What bounds the clocks, not where they stand: of the GPU, else of the CPU."""
    if gpus:
        return {
            "max_sm_mhz": gpus[0].max_sm_mhz,
            "max_memory_mhz": gpus[0].max_memory_mhz,
            "application_sm_mhz": gpus[0].application_sm_mhz,
        }
    known = {"governor": governor(), "turbo": turbo()}
    return {name: value for name, value in known.items() if value is not None}


def _settings(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(variables.items())
        if (name.startswith(_PREFIXES) or name in _NAMES) and not _NO_SETTING.search(name)
    }
