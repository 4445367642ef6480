"""The worker as a process: one job file in, one run file out, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.run import RunRecord
from harness.worker.__main__ import main, write_whole
from harness.worker.job import Job

WORKER = [sys.executable, "-P", "-m", "harness.worker"]
MakeJob = Callable[..., Job]


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*WORKER, *arguments], capture_output=True, text=True, timeout=120, env=environment
    )


def test_a_job_becomes_a_run(make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job()
    (tmp_path / "job.json").write_text(job.model_dump_json())
    done = start(str(tmp_path / "job.json"), str(tmp_path / "run.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    record = RunRecord.model_validate_json((tmp_path / "run.json").read_bytes())
    assert record.status == "ok"
    assert record.case_hash == job.case.hash
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.json", "run.json"]


def test_a_failed_run_is_a_run_too(make_job: MakeJob, tmp_path: Path) -> None:
    """The exit code says whether there is a run file, not what it says."""
    (tmp_path / "job.json").write_text(make_job(backend="triton").model_dump_json())
    arguments = ["--verify", str(tmp_path / "job.json"), str(tmp_path / "run.json")]
    assert start(*arguments).returncode == 0
    record = RunRecord.model_validate_json((tmp_path / "run.json").read_bytes())
    assert record.status == "unsupported"


@pytest.mark.parametrize("content", [None, "", "{}", '{"case": 1}', "\x00"])
def test_a_job_that_cannot_be_read_leaves_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    job, run = tmp_path / "job.json", tmp_path / "run.json"
    if content is not None:
        job.write_text(content)
    assert main([str(job), str(run)]) == 2
    assert "is no readable job" in capsys.readouterr().err
    assert not run.exists()


@pytest.mark.parametrize(
    "arguments", [[], ["1"], ["--verify", "1"], ["1", "2", "3"], ["--no", "1", "2"]]
)
def test_wrong_arguments_get_the_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -P -m harness.worker")


def test_a_run_file_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "run.json", "{}")
    assert not (tmp_path / "run.json").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux' own")
def test_a_worker_dies_with_its_parent(tmp_path: Path) -> None:
    """A sweep that is killed must leave no worker behind to disturb the next one."""
    program = textwrap.dedent("""
        import subprocess, sys, time
        child = "from harness.worker.__main__ import die_with_parent as d; d(); print(1, flush=1)"
        command = [sys.executable, "-c", child + "; import time; time.sleep(600)"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        process.stdout.readline()
        print(process.pid, flush=True)
        time.sleep(600)
    """)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 30
    while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.01)


def test_the_parent_imports_nothing_heavy() -> None:
    """A sweep reads job and run files by the hundred, and never needs torch for it."""
    code = "import sys, harness.worker.job, harness.worker; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_run_imports_no_more_of_torch_than_it_uses(make_job: MakeJob, tmp_path: Path) -> None:
    """Each of these costs every run of a sweep more than a second."""
    (tmp_path / "job.json").write_text(make_job().model_dump_json())
    code = textwrap.dedent(f"""
        import sys
        from harness.worker.__main__ import main
        assert main([{str(tmp_path / "job.json")!r}, {str(tmp_path / "run.json")!r}]) == 0
        heavy = ("torch._dynamo", "torch._inductor", "sympy", "transformers", "pandas",
                 "sqlalchemy", "matplotlib", "streamlit", "triton", "rich", "typer")
        print([name for name in heavy if name in sys.modules])
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
