"""What NVML tells about NVIDIA devices, without torch. Everything is None where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Gpu:
    """Settings and state of one device. None: the device does not report it."""

    name: str
    power_limit_w: float | None
    default_power_limit_w: float | None
    max_sm_mhz: int | None
    max_memory_mhz: int | None
    application_sm_mhz: int | None  # a lock below the maximum shows here
    persistence: bool | None
    slowdowns: tuple[str, ...]  # active now, by NVML's names
    processes: int | None  # that compute on it now, ours included


# Of the reasons for lower clocks those that spoil a measurement; idling and set clocks do not.
_SLOWDOWNS = {
    "SwPowerCap": "power limit",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "temperature (driver)",
    "HwThermalSlowdown": "temperature (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
}


def driver() -> str | None:
    """The NVIDIA driver's version, None where there is no driver."""
    with _session() as nvml:
        return None if nvml is None else _text(nvml.nvmlSystemGetDriverVersion())


def gpus() -> list[Gpu]:
    """All NVIDIA devices of the host, in NVML's order; [] where there is no driver."""
    with _session() as nvml:
        if nvml is None:
            return []
        return [_gpu(nvml, i) for i in range(nvml.nvmlDeviceGetCount())]


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    """The pynvml module, initialised, or None where package, library or driver are missing."""
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(question: Callable[..., T], *args: Any) -> T | None:
        try:
            return question(handle, *args)
        except nvml.NVMLError:
            return None

    limit = ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
    default = ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit)
    persistence = ask(nvml.nvmlDeviceGetPersistenceMode)
    reasons = ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0
    processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses)
    return Gpu(
        name=_text(nvml.nvmlDeviceGetName(handle)),
        power_limit_w=None if limit is None else limit / 1000,
        default_power_limit_w=None if default is None else default / 1000,
        max_sm_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        max_memory_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
        application_sm_mhz=ask(nvml.nvmlDeviceGetApplicationsClock, nvml.NVML_CLOCK_SM),
        persistence=None if persistence is None else bool(persistence),
        slowdowns=tuple(
            words
            for name, words in _SLOWDOWNS.items()
            if reasons & getattr(nvml, f"nvmlClocksThrottleReason{name}")
        ),
        processes=None if processes is None else len(processes),
    )


def _text(value: str | bytes) -> str:
    """Older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value
