"""What would spoil a measurement: each finding on a machine made up for it, and one real look."""

from dataclasses import replace
from typing import Any

import pytest

from harness.hardware.health import Finding, judge
from harness.hardware.identity import EnvironmentRow, RevisionRow
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
    numa_nodes=1,
    counts_energy=True,
    slowing=(),
    software=EnvironmentRow(torch="2.13.0", cuda="13.0", python="3.11", os="Linux"),
    code=RevisionRow(repo="r", commit="c" * 40),
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
    mig=False,
    ecc_errors=0,
    temperature_c=35,
)
PLAIN = EnvironmentRow(torch="2.13.0+cpu", python="3.11", os="Linux")
DIRTY = RevisionRow(repo="r", commit="c" * 40, dirty=True, diff_hash="d" * 64)


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
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, ecc_errors=1),))),
        ("software", replace(QUIET, gpus=(GPU,), software=PLAIN)),
        ("software", replace(QUIET, software=PLAIN.model_copy(update={"torch": None}))),
        ("variables", replace(QUIET, slowing=("TRITON_INTERPRET=1",))),
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
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, mig=True),))),
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, temperature_c=81),))),
        ("GPU 0", replace(QUIET, gpus=(replace(GPU, application_sm_mhz=1200),))),
        ("code", replace(QUIET, code=None)),
        ("code", replace(QUIET, code=DIRTY)),
        ("memory nodes", replace(QUIET, numa_nodes=2)),
        ("energy", replace(QUIET, counts_energy=False)),
    ],
)
def test_what_only_needs_care_is_a_note(subject: str, machine: Machine) -> None:
    assert levels(machine)[subject] == "note"


def test_a_gpu_with_several_faults_is_told_of_all() -> None:
    worn = replace(GPU, slowdowns=("power brake",), ecc_errors=2, persistence=False)
    found = [finding for finding in judge(replace(QUIET, gpus=(worn,))) if finding.advice]
    assert [finding.level for finding in found] == ["bad", "bad", "note"]
    assert all(finding.subject == "GPU 0" for finding in found)


def test_what_is_set_for_debugging_is_seen() -> None:
    given = {"TRITON_INTERPRET": "1", "CUDA_LAUNCH_BLOCKING": "0", "HOME": "/root"}
    assert observe(given, watch_seconds=0.01).slowing == ("TRITON_INTERPRET=1",)


def test_a_fake_gpu_is_read_whole(fake_nvml: Any) -> None:
    fake_nvml.mig, fake_nvml.ecc_errors, fake_nvml.temperature_c = [1, 1], 3, 82
    fake_nvml.processes = []
    (gpu,) = observe({}, watch_seconds=0.01).gpus
    assert (gpu.mig, gpu.ecc_errors, gpu.temperature_c, gpu.persistence) == (True, 3, 82, True)
    told = {f.says for f in judge(replace(QUIET, gpus=(gpu,))) if f.subject == "GPU 0"}
    assert len(told) == 4  # memory errors, parts, heat, and a limit below the default


def test_this_machine_can_be_looked_at() -> None:
    findings = judge(observe({}, watch_seconds=0.05))
    assert all(isinstance(finding, Finding) and finding.says for finding in findings)
