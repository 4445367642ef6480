"""The page renders from a small made database, and the command serves it on this machine only."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from harness import paths
from harness.cli.dashboard import command, environment
from harness.store import open_store
from harness.suite.points import KernelPoint, QualityPoint, ServePoint

PAGE = paths.root() / "dashboard" / "app.py"


@pytest.fixture(scope="module")
def database(example_sweep: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dashboard") / "made.db"
    with open_store(str(path)) as store:
        for name in ("first", "second"):
            start = example_sweep.start().model_copy(update={"uid": name})
            sweep_id = store.begin_sweep(start)
            for run in example_sweep.runs():
                store.save_run(sweep_id, run.case, run.record)
            store.end_sweep(sweep_id, "complete")
    return path


def _page(database: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("HARNESS_DB", str(database))
    page = AppTest.from_file(str(PAGE), default_timeout=60).run()
    assert not page.exception
    return page


def test_the_page_shows_a_sweep(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = _page(database, monkeypatch)
    assert page.title[0].value == "decode, sweep 2"
    assert "Example CPU 9000" in page.code[0].value
    table = page.dataframe[0].value
    assert list(table["stack"][:3]) == ["mha", "gqa", "mha+recompute"]
    assert "1.75x [1.73, 1.76]" in list(table["vs mha"])
    assert list(page.dataframe[1].value["status"]) == ["gate_failed", "oom"]
    text = " ".join(element.value for element in page.text)
    assert "to the byte" in text
    assert len(page.get("vega_lite_chart")) == 2


def test_sweep_baseline_metric_and_run_can_be_chosen(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = _page(database, monkeypatch)
    boxes = {box.label: box for box in page.selectbox}
    boxes["Sweep"].set_value(1)
    boxes["Baseline"].set_value("gqa")
    boxes["Ratio of"].set_value("throughput")
    page.run()
    assert not page.exception
    assert page.title[0].value == "decode, sweep 1"
    assert "vs gqa" in page.dataframe[0].value.columns
    assert page.dataframe[0].value["stack"][0] == "gqa"


SERVED = ServePoint(requests=9, rate=2.0, trace="azure-2023-code", slots=8, max_tokens=64)
ASKED = QualityPoint(task="text", windows=2, tokens=32, prompt_tokens=16)
CALLED = KernelPoint(kernel="rms_norm", sizes={"T": 8, "D": 64})


@pytest.mark.parametrize("workload", [SERVED, ASKED, CALLED], ids=lambda point: point.kind)
def test_a_sweep_that_generates_nothing_is_shown(
    workload: ServePoint | QualityPoint | KernelPoint,
    example_sweep: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page broke on every kind of workload but `generate`."""
    changes: dict[str, Any] = {"workload": workload}
    if workload is CALLED:
        changes |= {"stack": None, "model": ""}
    case = example_sweep.case("mha").model_copy(update=changes)
    numbers = {"throughput": 100.0, "ttft": 4e6, "bits_per_byte": 1.5, "kernel_time": 2e3}
    with open_store(str(tmp_path / "other.db")) as store:
        sweep_id = store.begin_sweep(example_sweep.start())
        for number in (1, 2):
            store.save_run(sweep_id, case, example_sweep.record(case, number, metrics=numbers))
        store.end_sweep(sweep_id, "complete")
    page = _page(tmp_path / "other.db", monkeypatch)
    assert page.title[0].value == "decode, sweep 1"
    assert len(page.dataframe) > 0


@pytest.mark.parametrize("name", ["none.db", "empty.db"])
def test_nothing_to_show_is_a_sentence_and_no_traceback(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "empty.db":
        open_store(str(tmp_path / name)).close()
    page = _page(tmp_path / name, monkeypatch)
    assert len(page.error) == 1
    assert not page.dataframe


def test_the_command_serves_on_loopback_without_telemetry(database: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [sys.executable, "-m", "harness", "dashboard", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [*arguments, "--db", str(database)],
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        try:
            assert _answers(f"http://127.0.0.1:{port}/_stcore/health", server)
        finally:
            server.terminate()
            server.wait(timeout=30)
    assert f"http://127.0.0.1:{port}" in (tmp_path / "log").read_text()


def _answers(url: str, server: subprocess.Popen[bytes]) -> bool:
    """Whether the server says it is well before it ends or a minute is over."""
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.2)
    return False


def test_what_is_started_is_fixed() -> None:
    told = command("app.py", "127.0.0.1", 8501)
    assert told[told.index("--server.address") + 1] == "127.0.0.1"
    assert environment("x.db")["STREAMLIT_BROWSER_GATHER_USAGE_STATS"] == "false"
    assert environment("x.db")["HARNESS_DB"] == "x.db"
