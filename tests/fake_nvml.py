"""A GPU that is not there: NVML's functions with their real signatures, errors and units.

    nvml = FakeNvml()                          # a quiet H100
    nvml.reasons = nvml.nvmlClocksThrottleReasonHwThermalSlowdown
    nvml.power_mw = lambda seconds: 250_000
    nvml.lost_after = 3                        # calls; then the GPU has fallen off the bus

Constants and exceptions are those of the real binding, and a test holds every signature to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml

HANDLE = object()
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


class FakeNvml:
    """Stands in for the module `pynvml`; what it has not itself is the real module's."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = clock
        self.sm_mhz = 1830
        self.memory_mhz = 2619
        self.temperature_c = 45
        self.power_mw: Callable[[float], int] = lambda _: 300_000
        self.energy_mj: Callable[[float], int] | None = lambda seconds: int(1e9 + 300_000 * seconds)
        self.reasons = 0
        self.throttled_ns: Callable[[float], int] = lambda _: 0
        self.processes = [os.getpid()]
        self.ecc_errors = 0
        self.mig = [0, 0]
        self.unsupported: set[str] = set()
        self.lost_after: int | None = None
        self.broken_after: int | None = None  # a binding that raises what is no NVMLError
        self.calls: list[str] = []
        self.initialised = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(pynvml, name)

    def _answer(self, name: str, handle: object) -> None:
        self.calls.append(name)
        assert self.initialised > 0, f"{name} before nvmlInit"
        if self.broken_after is not None and len(self.calls) > self.broken_after:
            raise OSError("the driver was unloaded")
        if self.lost_after is not None and len(self.calls) > self.lost_after:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        if name in self.unsupported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        assert handle is HANDLE

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own names, here and below
        self.initialised += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        assert self.initialised > 0
        self.initialised -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.65.06"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:  # noqa: N802
        if index != 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return HANDLE

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> object:  # noqa: N802
        if uuid != UUID:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return HANDLE

    def nvmlDeviceGetName(self, handle: object) -> str:  # noqa: N802
        self._answer("nvmlDeviceGetName", handle)
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetEnforcedPowerLimit", handle)
        return 650_000

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: object) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetPowerManagementDefaultLimit", handle)
        return 700_000

    def nvmlDeviceGetPersistenceMode(self, handle: object) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetPersistenceMode", handle)
        return 1

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> list[Any]:  # noqa: N802
        self._answer("nvmlDeviceGetComputeRunningProcesses", handle)
        return [SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in self.processes]

    def nvmlDeviceGetMaxClockInfo(self, handle: object, type: int) -> int:  # noqa: A002, N802
        self._answer("nvmlDeviceGetMaxClockInfo", handle)
        return {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 2619}[type]

    def nvmlDeviceGetClockInfo(self, handle: object, type: int) -> int:  # noqa: A002, N802
        self._answer("nvmlDeviceGetClockInfo", handle)
        return {pynvml.NVML_CLOCK_SM: self.sm_mhz, pynvml.NVML_CLOCK_MEM: self.memory_mhz}[type]

    def nvmlDeviceGetApplicationsClock(self, handle: object, type: int) -> int:  # noqa: A002, N802
        self._answer("nvmlDeviceGetApplicationsClock", handle)
        return 1980

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetTemperature", handle)
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return self.temperature_c

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetPowerUsage", handle)
        return self.power_mw(self.clock())

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:  # noqa: N802
        self._answer("nvmlDeviceGetTotalEnergyConsumption", handle)
        if self.energy_mj is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.energy_mj(self.clock())

    def nvmlDeviceGetMemoryInfo(self, handle: object, version: Any = None) -> Any:  # noqa: N802
        self._answer("nvmlDeviceGetMemoryInfo", handle)
        return SimpleNamespace(total=80 << 30, free=60 << 30, used=20 << 30)

    def nvmlDeviceGetTotalEccErrors(  # noqa: N802
        self,
        handle: object,
        errorType: int,
        counterType: int,
    ) -> int:
        self._answer("nvmlDeviceGetTotalEccErrors", handle)
        return self.ecc_errors

    def nvmlDeviceGetMigMode(self, device: object) -> list[int]:  # noqa: N802
        self._answer("nvmlDeviceGetMigMode", device)
        return self.mig

    def nvmlDeviceGetViolationStatus(  # noqa: N802
        self,
        device: object,
        perfPolicyType: int,
    ) -> Any:
        self._answer("nvmlDeviceGetViolationStatus", device)
        assert perfPolicyType == pynvml.NVML_PERF_POLICY_THERMAL
        seconds = self.clock()
        return SimpleNamespace(
            referenceTime=int(seconds * 1e9), violationTime=self.throttled_ns(seconds)
        )
