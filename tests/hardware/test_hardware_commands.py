"""`harness calibrate` and `harness doctor`, each alone in an application."""

import re

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import calibrate as calibrate_command
from harness.cli import doctor as doctor_command
from harness.errors import InfrastructureError
from harness.hardware import Ceilings


def run(command: object, *arguments: str) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()
    command.register(app)  # type: ignore[attr-defined]
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output, done.exception


def test_calibrate_prints_every_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings = Ceilings(
        bandwidth_bytes_per_s=20e9,
        flops_per_s={"float32": 100e9},
        source="measured",
        cache_bandwidth_bytes_per_s=80e9,
        cache_bytes=32 * 2**20,
        headroom=3,
    )
    monkeypatch.setattr("harness.hardware.calibrate", lambda *_: ceilings)
    code, told, _ = run(calibrate_command, "--profile", "cpu")
    assert code == 0
    head, *lines = told.splitlines()
    assert head.endswith(", 1 thread")
    assert [" ".join(line.split()) for line in lines] == [
        "memory 20.0 GB/s",
        "cache 80.0 GB/s, 32 MiB",
        "float32 100.0 GFLOP/s, ridge at 5 FLOPs a byte",
        "a result up to 3 times faster than these is still believed",
    ]


def test_calibrate_without_the_device_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, told, raised = run(calibrate_command, "--profile", "cuda")
    assert code != 0
    assert isinstance(raised, InfrastructureError)
    assert told == ""


def test_doctor_says_what_it_looked_at_and_exits_by_what_it_found() -> None:
    code, told, _ = run(doctor_command)
    subjects = (
        "load",
        "processes",
        "neighbours",
        "threads",
        "clock rate",
        "timer",
        "memory",
        "GPU",
    )
    assert all(
        re.search(rf"^(ok  |note|BAD )  {subject}", told, re.MULTILINE) for subject in subjects
    )
    assert code == (1 if "BAD " in told else 0)
