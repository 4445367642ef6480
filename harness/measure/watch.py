"""Watching the device while something is timed on it: clocks, heat, power, energy, other users.

A GPU is read by a thread ten times a second and at both ends; a processor only between repetitions,
since a thread would take the time that is measured. What was seen is told by `sensed`, and flagged
by `disturbance`. Sensors that are missing, stop or lie cost their numbers, never the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from harness.hardware import cpu_sensors, nvml
from harness.hardware.cpu_sensors import CpuReading

T = TypeVar("T")

PERIOD_SECONDS = 0.1  # NVML's own figures change about as often


@dataclass(frozen=True)
class Seen:
    """What the sensors told over one measurement: readings by time, ends of repetitions."""

    readings: tuple[tuple[float, nvml.Reading], ...] = ()
    cpu: tuple[tuple[float, CpuReading], ...] = ()
    ends: tuple[float, ...] = ()  # of repetitions, monotonic seconds
    begun: float = 0.0
    ended: float = 0.0
    mig: bool | None = None
    persistence: bool | None = None
    faults: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Length of the measurement."""
        return self.ended - self.begun


@dataclass
class Watch:
    """Reads sensors from `start` to `stop`.

    `gpu` is an open device, None for a processor, or for a GPU that no library tells of
    (`processor` False): the host's sensors are no stand-in for it. `clock` gives seconds.
    """

    gpu: nvml.OpenGpu | None = None
    processor: bool = True
    clock: Callable[[], float] = time.monotonic
    period: float = PERIOD_SECONDS
    _readings: list[tuple[float, nvml.Reading]] = field(default_factory=list)
    _cpu: list[tuple[float, CpuReading]] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    _begun: float = 0.0
    _faults: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Take a first reading and go on reading."""
        self._begun = self.clock()
        self._read()
        if self.gpu is not None:
            self._thread = threading.Thread(target=self._keep_reading, daemon=True)
            self._thread.start()

    def after(self, repeat: Callable[[], T]) -> Callable[[], T]:
        """The repetition, with its end noted."""

        def watched() -> T:
            result = repeat()
            self._ends.append(self.clock())
            if self.gpu is None:
                self._read()
            return result

        return watched

    def stop(self) -> Seen:
        """Take a last reading and tell what was seen."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._read()
        ended = self.clock()
        mig = persistence = None
        if self.gpu is not None:
            mig, persistence = self.gpu.mig, self.gpu.persistence
            self.gpu.close()
        return Seen(
            tuple(self._readings), tuple(self._cpu), tuple(self._ends), self._begun, ended,
            mig, persistence, tuple(self._faults),
        )  # fmt: skip

    def _keep_reading(self) -> None:
        while not self._stop.wait(self.period):
            self._read()

    def _read(self) -> None:
        """One reading; a sensor that breaks is noted once and left alone."""
        if self._faults:
            return
        try:
            if self.gpu is not None:
                reading = self.gpu.read()
                self._readings.append((self.clock(), reading))
            elif self.processor:
                self._cpu.append((self.clock(), cpu_sensors.read()))
        # A sensor is not worth a run: whatever a driver's binding raises ends the reading only.
        except Exception as error:
            place = len(self._readings) + len(self._cpu)
            self._faults.append(f"reading {place + 1} failed: {type(error).__name__}: {error}")


def for_device(device: str) -> Watch:
    """A watch for a job's device, "cpu" or "cuda"."""
    if device == "cpu":
        return Watch()
    import torch

    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return Watch(gpu=nvml.open_gpu(None if uuid is None else str(uuid)), processor=False)
