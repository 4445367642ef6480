"""Devices by datasheet: the shipped catalogue, and entries of one's own in a file of its form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from harness.errors import UsageError, printable, unknown
from harness.hardware.ceilings import Ceilings
from harness.hardware.identity import HardwareRow
from harness.records import Record
from harness.suite import document
from harness.suite.validation import validate

_FILE = Path(__file__).with_name("catalogue.yaml")
# H100's rates hold at 1,830 MHz while its highest clock is 1,980: a short step may run there.
DATASHEET_HEADROOM = 1.1


class Device(Record):
    """One device by its datasheet; decimal units, dense rates, the link in one direction."""

    name: str
    arch: str
    kind: str = Field("cuda", pattern="^(cpu|cuda)$")
    tflops: dict[str, PositiveFloat] = Field(min_length=1)  # by dtype; int8 in TOP/s
    memory_gb: PositiveFloat
    bandwidth_gb_s: PositiveFloat
    l2_mb: PositiveFloat
    multiprocessors: PositiveInt
    tdp_w: PositiveFloat | None = None
    link_gb_s: PositiveFloat | None = None
    price_per_hour: PositiveFloat | None = Field(None, description="of one device, in USD")
    from_: tuple[str, ...] = Field((), alias="from", description="letters of `sources`")
    unread: tuple[str, ...] = Field((), description="figures from memory, checked nowhere")
    reported_as: tuple[str, ...] = Field((), description="what torch or the system call it")

    @property
    def memory_bytes(self) -> float:
        """Memory of one device."""
        return self.memory_gb * 1e9

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Memory bandwidth."""
        return self.bandwidth_gb_s * 1e9

    def flops_per_s(self, dtype: str) -> float:
        """The dense rate in a dtype. UsageError where the datasheet has none."""
        if dtype not in self.tflops:
            known = ", ".join(self.tflops)
            raise UsageError(
                f"{self.name} has no rate for {dtype} in its datasheet; it has {known}"
            )
        return self.tflops[dtype] * 1e12

    def ridge(self, dtype: str) -> float:
        """FLOPs a byte above which the device computes rather than moves; lecture 2.1."""
        return self.flops_per_s(dtype) / self.bandwidth_bytes_per_s

    def ceilings(self) -> Ceilings:
        """What no right measurement on this device can beat."""
        return Ceilings(
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            flops_per_s={dtype: rate * 1e12 for dtype, rate in self.tflops.items()},
            source=f"datasheet of {self.name}",
            cache_bytes=round(self.l2_mb * 1e6),
            headroom=DATASHEET_HEADROOM,
        )

    def row(self, name: str) -> HardwareRow:
        """The row under which predictions for this device are stored."""
        return HardwareRow(
            kind="cpu" if self.kind == "cpu" else "cuda",
            name=self.name,
            arch=self.arch,
            memory_bytes=round(self.memory_bytes),
            count=1,
            cpu="",
            catalogue_name=name,
        )


class Catalogue(Record):
    """A file of devices."""

    sources: dict[str, str] = Field(default_factory=dict)
    devices: dict[str, Device] = Field(min_length=1)

    @model_validator(mode="after")
    def _sources_are_there(self) -> Catalogue:
        for name, device in self.devices.items():
            for letter in device.from_:
                if letter not in self.sources:
                    raise ValueError(f"device '{name}' names the source '{letter}', not listed")
        return self


def shipped() -> dict[str, Device]:
    """The shipped entries by name."""
    return dict(_shipped().devices)


def sources() -> dict[str, str]:
    """What the letters of the shipped entries stand for."""
    return dict(_shipped().sources)


def find(names: Iterable[str]) -> dict[str, Device]:
    """The devices that names mean, in their order: of the catalogue, or all of a YAML file.

    Raises:
        UsageError: an unknown name, a file of another form, a name that means two devices.
    """
    found: dict[str, Device] = {}
    for name in names:
        if name.endswith((".yaml", ".yml")):
            added = read(Path(name).expanduser())
        elif name.lower() in (known := shipped()):
            added = {name.lower(): known[name.lower()]}
        else:
            raise unknown("hardware", name, ["local", *known])
        for key, device in added.items():
            if found.setdefault(key, device) != device:
                raise UsageError(f"'{key}' means two different devices; rename one of them")
    return found


def read(file: Path) -> dict[str, Device]:
    """Entries of one's own. UsageError, with the line, for what is wrong in the file."""
    return dict(_load(file).devices)


def matching(
    hardware: HardwareRow, devices: Mapping[str, Device] | None = None
) -> tuple[str, Device] | None:
    """Name and datasheet of a detected device, by what it reports and its memory; None if unknown.

    Devices of one name may differ in memory. The driver keeps some percent for itself, and GiB are
    not GB.
    """
    for name, device in (shipped() if devices is None else devices).items():
        near = 0.85 < hardware.memory_bytes / device.memory_bytes < 1.15
        if near and hardware.name in (device.name, *device.reported_as):
            return name, device
    return None


@cache
def _shipped() -> Catalogue:
    return _load(_FILE)


def _load(file: Path) -> Catalogue:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "the text is not UTF-8"
        raise UsageError(f"{printable(str(file))} cannot be read: {reason}") from error
    read_in: Any = document.read(text, printable(str(file)))
    return validate(Catalogue, read_in.values, read_in.place)
