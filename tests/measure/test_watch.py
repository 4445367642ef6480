"""Sensors over a measurement, on a made-up GPU: what is told, flagged, and what energy it took."""

from __future__ import annotations

import inspect
import os
from typing import Any

import pynvml
import pytest

from harness.hardware import cpu_sensors, nvml
from harness.hardware.cpu_sensors import CpuReading
from harness.measure import sensed
from harness.measure.disturbance import flags, passing
from harness.measure.watch import Seen, Watch

REAL = pynvml


def seen_over(fake: Any, seconds: float, readings: int = 50, repetitions: int = 5) -> Seen:
    """A measurement of so long on the fake, without waiting: time is what its clock says."""
    gpu = nvml.open_gpu()
    assert gpu is not None
    now = [0.0]
    fake.clock = lambda: now[0]
    found, ends = [], []
    for i in range(readings + 1):
        now[0] = seconds * i / readings
        found.append((now[0], gpu.read()))
        if i and i % (readings // repetitions) == 0:
            ends.append(now[0])
    mig, persistence = gpu.mig, gpu.persistence
    gpu.close()
    return Seen(tuple(found), (), tuple(ends), 0.0, seconds, mig, persistence)


def test_the_fake_has_the_real_signatures(fake_nvml: Any) -> None:
    own = [name for name in vars(type(fake_nvml)) if name.startswith("nvml")]
    assert len(own) > 20
    for name in own:
        real, ours = (inspect.signature(getattr(m, name)) for m in (REAL, fake_nvml))
        assert [*ours.parameters] == [*real.parameters], name
        kinds = [(p.kind, p.default is p.empty) for p in ours.parameters.values()]
        assert kinds == [(p.kind, p.default is p.empty) for p in real.parameters.values()], name


def test_a_quiet_gpu_is_told_and_not_flagged(fake_nvml: Any) -> None:
    told = sensed.told(seen_over(fake_nvml, 5.0))
    assert told["sm_mhz"] == [1830, 1830, 1830]
    assert told["temperature_c"] == [45, 45, 45]
    assert told["power_w"] == [300, 300, 300]
    assert told["memory_used_bytes"] == 20 << 30
    assert (told["mig"], told["persistence"], told["ecc_errors"]) == (False, True, 0)
    assert [window["until_s"] for window in told["windows"]] == [1, 2, 3, 4, 5]
    assert flags(told) == []
    assert fake_nvml.initialised == 0, "what was opened is closed"


@pytest.mark.parametrize("counter", [True, False], ids=["counter", "power"])
@pytest.mark.parametrize("watts", [75.0, 700.0])
def test_energy_of_a_known_power_is_within_a_percent(
    fake_nvml: Any, watts: float, counter: bool
) -> None:
    fake_nvml.power_mw = lambda _: int(watts * 1e3)
    fake_nvml.energy_mj = (lambda s: int(5e9 + watts * 1e3 * s)) if counter else None
    used = sensed.energy(seen_over(fake_nvml, 3.0))
    assert used.joules == pytest.approx(watts * 3.0, rel=0.01)
    assert ("counter" in used.source) is counter


def test_energy_of_a_power_that_swings_is_integrated(fake_nvml: Any) -> None:
    """100 W for the first half, 500 W for the second."""
    fake_nvml.energy_mj = None
    fake_nvml.power_mw = lambda seconds: 100_000 if seconds < 2 else 500_000
    used = sensed.energy(seen_over(fake_nvml, 4.0, readings=400, repetitions=4))
    assert used.joules == pytest.approx(1200, rel=0.01)


def test_a_counter_that_goes_backwards_is_not_believed(fake_nvml: Any) -> None:
    fake_nvml.energy_mj = lambda seconds: int(1e9 - 300_000 * seconds)
    used = sensed.energy(seen_over(fake_nvml, 2.0))
    assert used.joules == pytest.approx(600, rel=0.01)
    assert used.source == "power integrated over 51 readings"
    fake_nvml.unsupported = {"nvmlDeviceGetPowerUsage"}
    used = sensed.energy(seen_over(fake_nvml, 2.0))
    assert used.joules is None
    assert "did not count up" in used.reason


def test_a_counter_that_begins_again_is_not_believed(fake_nvml: Any) -> None:
    """It ends above where it began, and lost most of the energy all the same."""
    fake_nvml.energy_mj = lambda seconds: int(300_000 * (seconds if seconds < 1 else seconds - 0.9))
    used = sensed.energy(seen_over(fake_nvml, 2.0))
    assert used.joules == pytest.approx(600, rel=0.01)
    assert used.source == "power integrated over 51 readings"


def test_a_partitioned_gpu_has_no_energy_of_its_own(fake_nvml: Any) -> None:
    fake_nvml.mig = [1, 1]
    used = sensed.energy(seen_over(fake_nvml, 2.0))
    assert (used.joules, "MIG" in used.reason) == (None, True)


def test_energy_a_token_needs_a_window_long_enough_and_undisturbed(fake_nvml: Any) -> None:
    short = sensed.per_window(seen_over(fake_nvml, 0.5), None)
    assert short.joules is None
    assert "too short" in short.reason
    shared = sensed.per_window(seen_over(fake_nvml, 5.0), "2 other processes")
    assert shared.joules is None
    assert sensed.per_window(seen_over(fake_nvml, 5.0), None).joules == pytest.approx(1500)


@pytest.mark.parametrize(
    ("reason", "words", "again"),
    [
        ("HwThermalSlowdown", "temperature (hardware) in 100 %", True),
        ("SwThermalSlowdown", "temperature (driver)", True),
        ("HwSlowdown", "hardware slowdown", True),
        ("HwPowerBrakeSlowdown", "power brake", True),
        ("SwPowerCap", "power limit", False),
    ],
)
def test_throttling_is_flagged(fake_nvml: Any, reason: str, words: str, again: bool) -> None:
    fake_nvml.reasons = getattr(REAL, f"nvmlClocksThrottleReason{reason}")
    told = sensed.told(seen_over(fake_nvml, 2.0))
    found = flags(told)
    assert words in found[0].says
    assert (passing(found) is not None) is again
    assert told["windows"][0]["slowdowns"] == [nvml.SLOWDOWNS[reason]]


def test_idle_and_set_clocks_are_no_throttling(fake_nvml: Any) -> None:
    fake_nvml.reasons = (
        REAL.nvmlClocksThrottleReasonGpuIdle
        | REAL.nvmlClocksThrottleReasonApplicationsClocksSetting
    )
    assert flags(sensed.told(seen_over(fake_nvml, 2.0))) == []


def test_heat_between_two_readings_is_seen_by_its_counter(fake_nvml: Any) -> None:
    fake_nvml.throttled_ns = lambda seconds: int(0.2e9 * seconds)
    (flag,) = flags(sensed.told(seen_over(fake_nvml, 2.0)))
    assert flag.says == "the GPU was throttled by heat for 0.4 of 2 s"


def test_other_processes_memory_errors_and_falling_clocks_are_flagged(fake_nvml: Any) -> None:
    fake_nvml.processes = [os.getpid(), 1, 2]
    assert flags(sensed.told(seen_over(fake_nvml, 2.0)))[0].says == (
        "2 other process(es) computed on the GPU"
    )
    told = {"seconds": 1.0, "ecc_errors": 3, "sm_mhz": [1200.0, 1800.0, 1830.0]}
    says = [flag.says for flag in flags(told)]
    assert says == [
        "the GPU's memory had 3 uncorrected error(s)", "the clock moved between 1200 and 1830 MHz"
    ]  # fmt: skip


def test_what_a_device_does_not_support_is_asked_once(fake_nvml: Any) -> None:
    fake_nvml.unsupported = {"nvmlDeviceGetViolationStatus", "nvmlDeviceGetTotalEccErrors"}
    told = sensed.told(seen_over(fake_nvml, 2.0))
    assert "ecc_errors" not in told
    assert fake_nvml.calls.count("nvmlDeviceGetViolationStatus") == 1
    assert fake_nvml.calls.count("nvmlDeviceGetClockInfo") == 2 * 51


def test_a_gpu_that_falls_off_the_bus_costs_only_its_later_readings(fake_nvml: Any) -> None:
    fake_nvml.lost_after = 60
    seen = seen_over(fake_nvml, 2.0)
    told = sensed.told(seen)
    assert told["sm_mhz"] == [1830, 1830, 1830]
    assert sensed.energy(seen).joules is None
    assert flags(told) == []


def test_no_library_no_driver_no_device(monkeypatch: pytest.MonkeyPatch, fake_nvml: Any) -> None:
    def no_driver() -> None:
        raise REAL.NVMLError(REAL.NVML_ERROR_DRIVER_NOT_LOADED)

    fake_nvml.nvmlInit = no_driver
    assert (nvml.open_gpu(), nvml.gpus(), nvml.driver()) == (None, [], None)
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert (nvml.open_gpu(), nvml.gpus(), nvml.driver()) == (None, [], None)


def test_a_gpu_that_no_library_tells_of_is_not_read_as_its_host(fake_nvml: Any) -> None:
    """The processor's energy would be stored as the GPU's."""
    watch = Watch(gpu=None, processor=False)
    watch.start()
    watch.after(lambda: None)()
    seen = watch.stop()
    assert (seen.readings, seen.cpu) == ((), ())
    assert sensed.energy(seen).reason == "no sensor told the device's energy"
    assert flags(sensed.told(seen)) == []


def test_a_container_sees_its_own_process_under_another_number(fake_nvml: Any) -> None:
    fake_nvml.processes = [4711]
    assert flags(sensed.told(seen_over(fake_nvml, 2.0))) == []


def test_another_device_than_the_one_in_use_is_not_read(fake_nvml: Any) -> None:
    fake_nvml.nvmlDeviceGetCount = lambda: 2
    assert nvml.open_gpu("unknown") is None
    assert fake_nvml.initialised == 0


def test_a_binding_that_raises_what_it_likes_ends_no_sweep(fake_nvml: Any) -> None:
    """Every sweep asks these before it begins."""
    fake_nvml.broken_after = 0
    (gpu,) = nvml.gpus()
    assert (gpu.name, gpu.power_limit_w) == ("unknown", None)
    fake_nvml.nvmlInit = lambda: (_ for _ in ()).throw(OSError("no such file"))
    assert (nvml.driver(), nvml.gpus(), nvml.open_gpu()) == (None, [], None)


def test_a_device_is_found_by_torch_s_uuid(fake_nvml: Any) -> None:
    fake_nvml.nvmlInit()
    for uuid in ("01234567-89ab-cdef-0123-456789abcdef", "unknown", None):
        gpu = nvml.open_gpu(uuid)
        assert gpu is not None
        gpu.close()
    assert fake_nvml.initialised == 1


def test_a_thread_reads_while_something_runs(fake_nvml: Any) -> None:
    import time

    watch = Watch(gpu=nvml.open_gpu(), period=0.005)
    watch.start()
    repeat = watch.after(lambda: time.sleep(0.05))
    repeat()
    repeat()
    seen = watch.stop()
    assert len(seen.readings) >= 5
    assert len(seen.ends) == 2
    assert seen.ended - seen.begun >= 0.1
    assert fake_nvml.initialised == 0


def test_a_sensor_that_breaks_ends_the_reading_and_not_the_run(fake_nvml: Any) -> None:
    fake_nvml.broken_after = 20
    watch = Watch(gpu=nvml.open_gpu(), period=0.001)
    watch.start()
    for _ in range(3):
        watch.after(lambda: None)()
    seen = watch.stop()
    (fault,) = sensed.told(seen)["faults"]
    assert fault.endswith("failed: OSError: the driver was unloaded")
    assert "the sensors stopped" in sensed.per_window(seen, None).reason


def test_a_processor_is_read_between_repetitions() -> None:
    watch = Watch()
    watch.start()
    watch.after(lambda: None)()
    told = sensed.told(watch.stop())
    assert told["readings"] == 3
    assert told["load_1m"][0] >= 0


def reading(**changes: Any) -> CpuReading:
    known: dict[str, Any] = {
        "mhz": 2300.0, "stolen_s": 0.0, "total_s": 0.0, "energy_uj": None, "load_1m": 0.0
    }  # fmt: skip
    return CpuReading(**(known | changes))


def cpu_seen(first: CpuReading, last: CpuReading) -> Seen:
    return Seen((), ((0.0, first), (1.0, last)), (1.0,), 0.0, 1.0)


def test_stolen_time_and_a_falling_clock_are_flagged() -> None:
    told = sensed.told(cpu_seen(reading(), reading(stolen_s=0.2, total_s=2.0, mhz=1500.0)))
    assert told["stolen_share"] == 0.1
    found = flags(told)
    assert [flag.says for flag in found] == [
        "10.0 % of processor time went to other virtual machines",
        "the clock moved between 1500 and 2300 MHz",
    ]
    assert passing(found) == found[0].says


def test_rapl_counters_add_up_and_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_sensors, "_energy_ranges_uj", lambda: [1_000_000, 1_000_000])
    first, last = reading(energy_uj=(900_000, 100)), reading(energy_uj=(100_000, 300_100))
    used = sensed.energy(cpu_seen(first, last))
    assert used.joules == pytest.approx(0.2 + 0.3)
    assert "RAPL" in used.source
    hidden = sensed.energy(cpu_seen(reading(), reading()))
    assert (hidden.joules, "not readable" in hidden.reason) == (None, True)
