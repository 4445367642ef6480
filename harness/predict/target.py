"""What to predict for: a catalogue's device, or the machine at hand as it was calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.errors import UsageError
from harness.hardware.catalogue import Device
from harness.hardware.identity import HardwareRow
from harness.predict import efficiency
from harness.predict.efficiency import Local
from harness.predict.products import Rates

# The device whose published times the constants of all GPUs are fitted on.
FITTED_ON = "a100-80"


@dataclass(frozen=True)
class Target:
    """A device to predict for; `rates` go by dtype."""

    name: str
    row: HardwareRow
    rates: Mapping[str, Rates]
    memory_bytes: float
    tdp_w: float | None = None
    price_per_hour: float | None = None

    def rates_in(self, dtype: str) -> Rates:
        """The rates in a dtype. UsageError where the device has none."""
        if dtype not in self.rates:
            known = ", ".join(self.rates)
            raise UsageError(f"{self.name} has no rate for {dtype}, only for {known}")
        return self.rates[dtype]

    def priced(self, price_per_hour: float) -> Target:
        """The same at another price."""
        return replace(self, price_per_hour=price_per_hour)


def by_datasheet(name: str, device: Device) -> Target:
    """A device of which only the datasheet is known. UsageError for a processor.

    A processor's library, caches and host speed are in no datasheet: calibrate it.
    """
    if device.kind == "cpu":
        raise UsageError(
            f"'{name}' is a processor, and none is predicted by its datasheet; run "
            "'harness calibrate' on it and predict for 'local'"
        )
    share = efficiency.gpu() if name == FITTED_ON else efficiency.elsewhere()
    return Target(
        name=name,
        row=device.row(name),
        rates={
            dtype: Rates(rate * 1e12, device.bandwidth_bytes_per_s, device.multiprocessors, share)
            for dtype, rate in device.tflops.items()
        },
        memory_bytes=device.memory_bytes,
        tdp_w=device.tdp_w,
        price_per_hour=device.price_per_hour,
    )


def by_calibration(hardware: HardwareRow, measured: Mapping[str, Local]) -> Target:
    """The processor at hand, by what was measured on it, by dtype."""
    return Target(
        name="local",
        row=hardware,
        rates={
            dtype: Rates(
                local.flops_per_s, local.bandwidth, hardware.count, local.efficiency, local.measured
            )
            for dtype, local in measured.items()
        },
        memory_bytes=hardware.memory_bytes,
    )
