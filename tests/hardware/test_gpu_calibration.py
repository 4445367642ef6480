"""A GPU's limits on a GPU that is not there: which bytes and FLOPs each rate counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.hardware import gpu_calibration
from harness.hardware.ceilings import Ceilings

MIB = 1024**2
MEMORY, CACHE, LINK, FLOPS = 2e12, 8e12, 5e10, 4e14  # bytes and FLOPs a second
LAUNCH, REDUCE = 3e-6, 1e-3  # seconds
SIDE = 64  # of the square products


class FakeGpu:
    """`torch` as `gpu_calibration` uses it, on the host, with a device's times.

    Each operation moves the device's time on by its bytes, FLOPs or launch; an event reads it.
    """

    def __init__(self, devices: int = 1, cache_bytes: int = 30 * MIB) -> None:
        self.now, self.devices = 0.0, devices
        self.cuda = SimpleNamespace(
            get_device_properties=lambda _: SimpleNamespace(
                L2_cache_size=cache_bytes, total_memory=64 * 16 * MIB
            ),
            device_count=lambda: self.devices,
            synchronize=lambda *_: None,
            Event=self._event,
            nccl=SimpleNamespace(is_available=lambda _: True, all_reduce=self._all_reduce),
        )
        self.float32, self.bfloat16 = torch.float32, torch.bfloat16
        self.device = torch.device

    def ones(self, size: int, device: Any = None, pin_memory: bool = False) -> Any:
        return FakeTensor(self, size, on_device=device is not None and not pin_memory)

    def empty_like(self, other: FakeTensor) -> FakeTensor:
        return FakeTensor(self, other.size, on_device=True)

    def randn(self, *_: int, **__: Any) -> Any:
        return SimpleNamespace(to=lambda _: None)

    def mm(self, *_: Any) -> None:
        self.now += 2 * SIDE**3 / FLOPS

    def _event(self, **_: Any) -> Any:
        event = SimpleNamespace(at=0.0, synchronize=lambda: None)
        event.record = lambda: setattr(event, "at", self.now)
        event.elapsed_time = lambda end: (end.at - event.at) * 1e3
        return event

    def _all_reduce(self, parts: list[FakeTensor]) -> None:
        assert len(parts) == self.devices
        self.now += REDUCE


class FakeTensor:
    """Numbers of four bytes, counted only."""

    def __init__(self, gpu: FakeGpu, size: int, on_device: bool) -> None:
        self.gpu, self.size, self.on_device = gpu, size, on_device

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> FakeTensor:
        return FakeTensor(self.gpu, len(range(self.size)[part]), self.on_device)

    def copy_(self, source: FakeTensor, non_blocking: bool = False) -> None:
        assert len(source) == len(self)
        assert non_blocking == (not source.on_device)
        moved = 4 * self.size
        self.gpu.now += 2 * moved / MEMORY if source.on_device else moved / LINK

    def mul_(self, _: float) -> None:
        self.gpu.now += LAUNCH if self.size == 1 else 2 * 4 * self.size / CACHE


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Ceilings:
    fake = FakeGpu(**getattr(request, "param", {}))
    monkeypatch.setattr(gpu_calibration, "torch", fake)
    monkeypatch.setattr(gpu_calibration, "_SIDES", (SIDE,))
    monkeypatch.setattr(gpu_calibration, "time", SimpleNamespace(perf_counter=lambda: fake.now))
    return gpu_calibration.measure_gpu(torch.device("cuda"), ("float32", "bfloat16"))


def test_rates_are_those_of_the_device(measured: Ceilings) -> None:
    assert measured.bandwidth_bytes_per_s == pytest.approx(MEMORY)
    assert measured.cache_bandwidth_bytes_per_s == pytest.approx(CACHE)
    assert measured.cache_bytes == 30 * MIB
    assert measured.host_to_device_bytes_per_s == pytest.approx(LINK)
    assert measured.launch_seconds == pytest.approx(LAUNCH)
    assert measured.flops_per_s == pytest.approx({"float32": FLOPS, "bfloat16": FLOPS})
    assert measured.all_reduce_bytes_per_s is None
    assert measured.headroom == gpu_calibration.HEADROOM


@pytest.mark.parametrize("measured", [{"devices": 4}], indirect=True)
def test_several_devices_reduce_together(measured: Ceilings) -> None:
    assert measured.all_reduce_bytes_per_s == pytest.approx(64 * MIB / REDUCE)


@pytest.mark.parametrize("measured", [{"cache_bytes": 0}], indirect=True)
def test_a_cache_that_is_not_told_has_no_rate(measured: Ceilings) -> None:
    assert measured.cache_bytes is None
    assert measured.cache_bandwidth_bytes_per_s is None
