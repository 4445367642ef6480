"""What would spoil a measurement: each finding on a machine made up for it, and one real look."""

from dataclasses import replace

import pytest

from harness.hardware.health import Finding, judge
from harness.hardware.machine import Busy, Machine, observe
from harness.hardware.nvml import Gpu

QUIET = Machine(
    cores=8,
    quota_cores=None,
    threads_per_core=1,
    load=0.1,
    stolen=0.0,
    busy=(),
    governor="performance",
    turbo=False,
    clocksource="tsc",
    threads_set=None,
    memory_bytes=100,
    available_bytes=90,
    swapped_bytes=0,
    gpus=(),
)
GPU = Gpu(
    name="H100",
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    max_sm_mhz=1980,
    max_memory_mhz=2619,
    application_sm_mhz=1980,
    persistence=True,
    slowdowns=(),
    processes=0,
)


def levels(machine: Machine) -> dict[str, str]:
    return {finding.subject: finding.level for finding in judge(machine)}


def test_a_quiet_machine_is_good() -> None:
    with_gpu = replace(QUIET, gpus=(GPU,))
    assert set(levels(with_gpu).values()) == {"good"}


@pytest.mark.parametrize(
    ("subject", "machine"),
    [
        ("load", replace(QUIET, load=8.0)),
        ("processes", replace(QUIET, busy=(Busy(7, "cc1plus", 1.0),))),
        ("neighbours", replace(QUIET, stolen=0.05)),
        ("threads", replace(QUIET, quota_cores=1.5)),
        ("clock rate", replace(QUIET, governor="powersave")),
        ("timer", replace(QUIET, clocksource="hpet")),
        ("memory", replace(QUIET, available_bytes=5)),
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, slowdowns=("power limit",)),))),
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, processes=2),))),
    ],
)
def test_what_spoils_a_measurement_is_bad_and_says_what_to_do(
    subject: str, machine: Machine
) -> None:
    bad = [finding for finding in judge(machine) if finding.level == "bad"]
    assert [finding.subject for finding in bad] == [subject]
    assert bad[0].advice


@pytest.mark.parametrize(
    ("subject", "machine"),
    [
        ("load", replace(QUIET, load=2.0)),
        ("threads", replace(QUIET, threads_set="4")),
        ("threads", replace(QUIET, threads_per_core=2)),
        ("clock rate", replace(QUIET, governor=None)),
        ("clock rate", replace(QUIET, turbo=True)),
        ("memory", replace(QUIET, swapped_bytes=20)),
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, power_limit_w=400.0),))),
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, persistence=False),))),
    ],
)
def test_what_only_needs_care_is_a_note(subject: str, machine: Machine) -> None:
    assert levels(machine)[subject] == "note"


def test_this_machine_can_be_looked_at() -> None:
    findings = judge(observe({}, watch_seconds=0.05))
    assert all(isinstance(finding, Finding) and finding.says for finding in findings)
