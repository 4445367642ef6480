"""`harness calibrate` and `harness doctor`, each alone in an application."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import calibrate as calibrate_command
from harness.cli import doctor as doctor_command
from harness.cli.sweep import known_hardware
from harness.errors import InfrastructureError, UsageError
from harness.hardware.calibration import stored
from harness.hardware.ceilings import Ceilings
from harness.hardware.detection import detect
from harness.predict.calibration import target
from harness.predict.efficiency import Efficiency, Local
from harness.predict.measured import Measured
from harness.store import open_store, schema


def run(command: object, *arguments: str) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()
    command.register(app)  # type: ignore[attr-defined]
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output, done.exception


MADE_UP = Ceilings(
    bandwidth_bytes_per_s=20e9,
    flops_per_s={"float32": 100e9},
    source="measured",
    cache_bandwidth_bytes_per_s=80e9,
    cache_bytes=32 * 2**20,
    launch_seconds=3e-6,
    headroom=3,
)
TIMES = Measured(
    rows=(1, 8),
    head_factor=(1, 1),
    working_sets=(1e6, 1e8),
    product_seconds=((1e-10, 4e-10), (2e-10, 4e-10)),
    launch_seconds_more=(0.0, 1e-6),
    queries=(1, 64),
    attention_widths=(256,),
    attention_flops_per_s=((1e10,), (2e10,)),
    state_bytes_per_s=5e9,
    between_sizes=(1e5,),
    between_bytes_per_s=(2e9,),
)
SHARES = Efficiency(
    matrix=0.9, memory=0.8, launch_seconds=4e-6, step_seconds=5e-5, spread=0.1, source="made up"
)


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both measurements answer at once with made-up numbers."""
    local = Local(flops_per_s=100e9, bandwidth=10e9, measured=TIMES, efficiency=SHARES)
    monkeypatch.setattr("harness.hardware.calibration.calibrate", lambda *_: MADE_UP)
    monkeypatch.setattr(
        "harness.predict.calibration.measure", lambda _, dtypes: dict.fromkeys(dtypes, local)
    )


@pytest.mark.usefixtures("calibrated")
def test_calibrate_prints_what_it_measured_and_keeps_it(tmp_path: Path) -> None:
    database = str(tmp_path / "kept.db")
    code, told, _ = run(calibrate_command, "--profile", "cpu", "--db", database)
    assert code == 0
    head, *lines = told.splitlines()
    assert head.endswith(", 1 thread")
    assert [" ".join(line.split()) for line in lines] == [
        "memory 20.0 GB/s",
        "cache 80.0 GB/s, 32 MiB",
        "launch 3.0 us",
        "float32 100.0 GFLOP/s, ridge at 5 FLOPs a byte",
        "a result up to 3 times faster than these is still believed",
        "",
        "typical in float32",
        "matrix 100.0 GFLOP/s",
        "1 row 20.0 5.0 GFLOP/s",
        "8 rows 80.0 40.0 GFLOP/s",
        "of weights 1 100 MB",
        "state 5.0 GB/s",
        "launch 4.0 us",
        "a step 50.0 us",
        "prompts 0.0 us more of it",
        "a sequence 0.0 us of it",
        "",
        f"kept in {database}",
    ]
    here = known_hardware(detect("cpu"), database)
    assert stored(here, 1, ["float32"]) == MADE_UP
    assert target(here, 1).rates["float32"].efficiency == SHARES


@pytest.mark.usefixtures("calibrated")
def test_a_later_calibration_keeps_the_highest_limits_and_the_latest_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(tmp_path / "kept.db")
    run(calibrate_command, "--profile", "cpu", "--db", database)
    lower = MADE_UP.model_copy(update={"bandwidth_bytes_per_s": 1e9})
    monkeypatch.setattr("harness.hardware.calibration.calibrate", lambda *_: lower)
    run(calibrate_command, "--profile", "cpu", "--db", database, "--threads", "2")
    run(calibrate_command, "--profile", "cpu", "--db", database)
    here = known_hardware(detect("cpu"), database)
    one, two = stored(here, 1, ["float32"]), stored(here, 2, ["float32"])
    assert one is not None
    assert two is not None
    assert (one.bandwidth_bytes_per_s, two.bandwidth_bytes_per_s) == (20e9, 1e9)
    assert target(here, 2).name == "local"


def test_predicting_for_a_machine_that_was_never_calibrated_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not calibrated with 3 thread\(s\); run 'harness cal"):
        target(known_hardware(detect("cpu"), str(tmp_path / "none.db")), 3)


def test_a_calibration_of_another_version_says_what_to_do() -> None:
    here = detect("cpu").model_copy(update={"calibration": {"typical": {"1": {"float32": {}}}}})
    with pytest.raises(UsageError, match="is another version's; run 'harness calibrate --threads"):
        target(here, 1)


@pytest.mark.usefixtures("calibrated")
def test_what_an_older_database_holds_of_a_machine_is_not_lost(tmp_path: Path) -> None:
    """Calibrating one number of threads would else replace all that was kept."""
    database = str(tmp_path / "older.db")
    run(calibrate_command, "--profile", "cpu", "--db", database, "--threads", "2")
    with open_store(database) as store:
        schema.migrate(store.engine, "0002")
    code, _, raised = run(calibrate_command, "--profile", "cpu", "--db", database)
    assert code != 0
    assert "run 'harness db upgrade --db" in str(raised)
    open_store(database).close()
    run(calibrate_command, "--profile", "cpu", "--db", database)
    here = known_hardware(detect("cpu"), database)
    assert stored(here, 2, ["float32"]) == stored(here, 1, ["float32"]) == MADE_UP


def test_calibrate_without_the_device_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, told, raised = run(calibrate_command, "--profile", "cuda")
    assert code != 0
    assert isinstance(raised, InfrastructureError)
    assert told == ""


def test_doctor_says_what_it_looked_at_and_exits_by_what_it_found() -> None:
    code, told, _ = run(doctor_command)
    subjects = (
        "software",
        "code",
        "variables",
        "memory nodes",
        "energy",
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
