"""What NVML tells about NVIDIA devices, without torch. Everything is None where there is none.

Nothing here changes a setting, and nothing here raises: a library that is missing, stops answering
or answers nonsense costs a reading and never a sweep.
"""

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
    mig: bool | None = None
    ecc_errors: int | None = None  # uncorrected, since the driver was loaded
    temperature_c: int | None = None


@dataclass(frozen=True)
class Reading:
    """A device at one moment, or between two: None where it does not report it."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    energy_j: float | None = None  # since the driver was loaded
    slowdowns: tuple[str, ...] = ()
    throttled_s: float | None = None  # by heat, since the driver was loaded
    memory_used_bytes: int | None = None
    others: int | None = None  # processes that compute on it and are not this one
    ecc_errors: int | None = None


# Of the reasons for lower clocks those that spoil a measurement; idling and set clocks do not.
SLOWDOWNS = {
    "SwPowerCap": "power limit",
    "HwSlowdown": "hardware slowdown",
    "SwThermalSlowdown": "temperature (driver)",
    "HwThermalSlowdown": "temperature (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
}


def driver() -> str | None:
    """The NVIDIA driver's version, None where there is no driver."""
    with _session() as nvml:
        return None if nvml is None else _text(_asked(nvml.nvmlSystemGetDriverVersion))


def gpus() -> list[Gpu]:
    """All NVIDIA devices of the host, in NVML's order; [] where there is no driver."""
    with _session() as nvml:
        if nvml is None:
            return []
        count = _asked(nvml.nvmlDeviceGetCount) or 0
        handles = (_asked(nvml.nvmlDeviceGetHandleByIndex, i) for i in range(count))
        return [_gpu(nvml, handle) for handle in handles if handle is not None]


class OpenGpu:
    """One device, open for reading again and again while something is measured on it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        # What the device does not support is asked once: each refusal is a call to the driver.
        self._silent: set[str] = set()
        self.mig = _mig(nvml, handle)
        self.persistence = _flag(_asked(nvml.nvmlDeviceGetPersistenceMode, handle))

    def read(self) -> Reading:
        """The device now. What it cannot tell is None; nothing at all once it stopped answering."""
        n = self._nvml
        power_mw = self._ask("nvmlDeviceGetPowerUsage")
        energy_mj = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        throttled = self._ask("nvmlDeviceGetViolationStatus", n.NVML_PERF_POLICY_THERMAL)
        return Reading(
            sm_mhz=self._ask("nvmlDeviceGetClockInfo", n.NVML_CLOCK_SM),
            memory_mhz=self._ask("nvmlDeviceGetClockInfo", n.NVML_CLOCK_MEM),
            temperature_c=self._ask("nvmlDeviceGetTemperature", n.NVML_TEMPERATURE_GPU),
            power_w=None if power_mw is None else power_mw / 1e3,
            energy_j=None if energy_mj is None else energy_mj / 1e3,
            slowdowns=_slowdowns(n, reasons or 0),
            throttled_s=None if throttled is None else throttled.violationTime / 1e9,
            memory_used_bytes=None if memory is None else memory.used,
            others=None if processes is None else _others(processes),
            ecc_errors=self._ask(
                "nvmlDeviceGetTotalEccErrors",
                n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                n.NVML_VOLATILE_ECC,
            ),
        )

    def close(self) -> None:
        """Let the library go."""
        _asked(self._nvml.nvmlShutdown)

    def _ask(self, name: str, *args: Any) -> Any:
        key = f"{name} {args}"
        if key in self._silent:
            return None
        try:
            return getattr(self._nvml, name)(self._handle, *args)
        except self._nvml.NVMLError_NotSupported:
            self._silent.add(key)
        except (self._nvml.NVMLError, AttributeError):
            # Lost, busy, or a binding too old to know the question.
            return None
        return None


def open_gpu(uuid: str | None = None) -> OpenGpu | None:
    """The device with that UUID, as torch reports it; None where there is none.

    A part of a device, and what torch does not name, is found where there is one device only:
    another's sensors would be worse than none.
    """
    nvml = _initialised()
    if nvml is None:
        return None
    handle = None
    if uuid is not None:
        full = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        handle = _asked(nvml.nvmlDeviceGetHandleByUUID, full)
    if handle is None and _asked(nvml.nvmlDeviceGetCount) == 1:
        handle = _asked(nvml.nvmlDeviceGetHandleByIndex, 0)
    if handle is None:
        _asked(nvml.nvmlShutdown)
        return None
    return OpenGpu(nvml, handle)


def _initialised() -> Any:
    """The pynvml module, initialised, or None where package, library or driver are missing."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    # As in `_asked`: no library, no driver, or one that this binding does not know.
    except Exception:
        return None
    return pynvml


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    nvml = _initialised()
    try:
        yield nvml
    finally:
        if nvml is not None:
            _asked(nvml.nvmlShutdown)


def _gpu(nvml: Any, handle: Any) -> Gpu:
    def ask(question: Callable[..., T], *args: Any) -> T | None:
        return _asked(question, handle, *args)

    limit = ask(nvml.nvmlDeviceGetEnforcedPowerLimit)
    default = ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit)
    processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses)
    uncorrected = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    return Gpu(
        name=_text(ask(nvml.nvmlDeviceGetName)) or "unknown",
        power_limit_w=None if limit is None else limit / 1000,
        default_power_limit_w=None if default is None else default / 1000,
        max_sm_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
        max_memory_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
        application_sm_mhz=ask(nvml.nvmlDeviceGetApplicationsClock, nvml.NVML_CLOCK_SM),
        persistence=_flag(ask(nvml.nvmlDeviceGetPersistenceMode)),
        slowdowns=_slowdowns(nvml, ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0),
        processes=None if processes is None else len(processes),
        mig=_mig(nvml, handle),
        ecc_errors=ask(nvml.nvmlDeviceGetTotalEccErrors, *uncorrected),
        temperature_c=ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
    )


def _asked(question: Callable[..., T], *args: Any) -> T | None:
    """The answer; None where the device does not support the question or does not answer."""
    try:
        return question(*args)
    # No NVMLError alone: a binding and a driver of different ages raise what they like.
    except Exception:
        return None


def _mig(nvml: Any, handle: Any) -> bool | None:
    mode = _asked(nvml.nvmlDeviceGetMigMode, handle)
    return None if mode is None else bool(mode[0])


def _slowdowns(nvml: Any, reasons: int) -> tuple[str, ...]:
    return tuple(
        words
        for name, words in SLOWDOWNS.items()
        if reasons & getattr(nvml, f"nvmlClocksThrottleReason{name}")
    )


def _others(processes: list[Any]) -> int:
    """All but one, which is this process: a container shows it under another number."""
    return max(0, len(processes) - 1)


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _text(value: str | bytes | None) -> str | None:
    """Older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value
