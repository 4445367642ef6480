"""The executor against workers that crash, hang, print nonsense and leave children behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.errors import InfrastructureError
from harness.run import RunRecord
from harness.suite.case import Case, Choice, GateSettings, MeasureSettings, StackSpec
from harness.suite.points import GeneratePoint
from harness.sweep.executor import LocalExecutor
from harness.sweep.interruption import Interruption, StopRequestedError
from harness.worker.job import Job

ANSWER = """
import json, sys
job = json.load(open(sys.argv[1]))
run = dict(case_hash=HASH, status="ok", round=job["round"], order_slot=job["order_slot"],
           started_at="2026-01-01T00:00:00Z", seconds=0.5,
           metrics=[dict(name="tpot", value=5.0)])
run.update(CHANGES)
open(sys.argv[2], "w").write(json.dumps(run))
"""


def job(timeout_s: float = 60.0) -> Job:
    stack = StackSpec(
        label="mha",
        architecture=(Choice(technique="mha"),),
        weights=Choice(technique="dense"),
        cache=Choice(technique="contiguous"),
        decoding=Choice(technique="autoregressive"),
        scheduling=Choice(technique="static"),
    )
    case = Case(
        stack=stack,
        model="tiny",
        checkpoint_hash=None,
        workload=GeneratePoint(batch=1, prompt_tokens=4, new_tokens=4),
        threads=3,
    )
    measure = MeasureSettings(timeout_seconds=timeout_s)
    return Job(case=case, measure=measure, gate=GateSettings(), seed=1, round=2, order_slot=7)


def submit(
    code: str, *, timeout_s: float = 60.0, interruption: Interruption | None = None
) -> RunRecord:
    command = [sys.executable, "-S", "-X", "faulthandler", "-c", code]
    return LocalExecutor(interruption, command).submit(job(timeout_s))


def answer(**changes: object) -> str:
    code = ANSWER.replace("HASH", repr(job().case.hash))
    return code.replace("CHANGES", repr(changes))


def test_answer_is_taken() -> None:
    run = submit(answer())
    assert (run.status, run.round, run.order_slot, run.seconds) == ("ok", 2, 7, 0.5)
    assert run.reason is None


def test_threads_are_set_before_libraries_load() -> None:
    code = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'])\n"
    assert submit(code + answer()).stderr_tail == "3 3"


def test_relative_paths_mean_the_same_to_the_worker() -> None:
    assert submit("import os; print(os.getcwd())\n" + answer()).stderr_tail == str(Path.cwd())


def test_output_of_a_good_run_is_kept() -> None:
    run = submit("import sys; print('a warning', file=sys.stderr)\n" + answer())
    assert (run.status, run.stderr_tail) == ("ok", "a warning")


def test_exit_code_means_crashed() -> None:
    run = submit("import sys; sys.exit('the reason')")
    assert (run.status, run.stderr_tail) == ("crashed", "the reason")
    assert run.reason == "the worker ended with exit code 1"


def test_exit_code_beats_an_answer() -> None:
    assert submit(answer() + "\nsys.exit(3)").status == "crashed"


def test_no_answer_is_an_error() -> None:
    run = submit("pass")
    assert run.status == "error"
    assert run.reason == "the worker ended with exit code 0 and left no result"


@pytest.mark.parametrize(
    "text", ["", "garbage", "{}", "[1, 2]", "\\udc80\\xff", '{"status": "ok"}']
)
def test_garbage_is_an_error(text: str) -> None:
    run = submit(f"import sys; open(sys.argv[2], 'w', errors='replace').write('{text}')")
    assert run.status == "error"
    assert run.reason is not None
    assert "cannot be read" in run.reason
    assert run.metrics == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"case_hash": "0" * 64}, "another job"),
        ({"round": 1}, "another job"),
        ({"attempt": 2}, "another job"),
        ({"started_at": "2026-01-01T00:00:00"}, "time zone"),
        ({"metrics": []}, "no metric"),
        ({"status": "gate_failed"}, "may carry no metric"),
        ({"metrics": [{"name": "tpot", "value": float("nan")}]}, "'tpot' is nan"),
        ({"metrics": [{"name": "tpot", "value": float("inf")}]}, "'tpot' is inf"),
        ({"metrics": [{"name": "tpot", "value": None}]}, "without a null_reason"),
        ({"metrics": [{"name": "tpot", "value": 1.0, "null_reason": "x"}]}, "and the null_reason"),
        ({"telemetry": {"heat": float("nan")}}, "telemetry"),
    ],
)
def test_answer_that_contradicts_itself_is_an_error(changes: dict[str, object], words: str) -> None:
    code = f"nan, inf = float('nan'), float('inf')\n{answer(**changes)}"
    run = submit(code)
    assert run.status == "error"
    assert run.reason is not None
    assert words in run.reason
    assert run.metrics == []


def test_segfault_says_where() -> None:
    run = submit("import os, signal\ndef deep():\n os.kill(os.getpid(), signal.SIGSEGV)\ndeep()")
    assert (run.status, run.reason) == ("crashed", "the worker was ended by SIGSEGV")
    assert "in deep" in run.stderr_tail


def test_kill_from_outside_is_told_from_lack_of_memory() -> None:
    run = submit("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert run.status == "crashed"
    assert run.reason is not None
    assert "SIGKILL" in run.reason
    assert "out-of-memory" in run.reason


def test_counted_kill_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([3, 4])
    monkeypatch.setattr("harness.sweep.executor.oom_kills", lambda: next(counts))
    assert submit("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").status == "oom"


def test_hang_is_a_timeout_that_says_where() -> None:
    code = "import time\ndef stuck():\n time.sleep(600)\nprint('before')\nstuck()"
    run = submit(code, timeout_s=0.5)
    assert (run.status, run.reason) == ("timeout", "no result within 0.5 s; killed")
    assert "in stuck" in run.stderr_tail
    assert run.seconds < 60


def test_worker_that_ignores_signals_is_killed() -> None:
    code = "import signal, time\nsignal.signal(signal.SIGABRT, signal.SIG_IGN)\ntime.sleep(600)"
    assert submit(code, timeout_s=0.3).status == "timeout"


def test_worker_that_never_stops_printing_is_killed() -> None:
    code = "import os\nwhile True: os.write(2, b'y' * 65536)"
    assert submit(code, timeout_s=0.5).status == "timeout"


def test_huge_output_is_cut_to_its_end() -> None:
    code = (
        "import os\nfor _ in range(800): os.write(2, b'z' * 65536)\nos.write(2, b'\\nthe end\\n')"
    )
    run = submit(code + "\n" + answer())
    assert run.status == "ok"
    assert run.stderr_tail.splitlines()[-1] == "the end"
    assert len(run.stderr_tail) <= 4096


def test_output_is_made_fit_for_a_database() -> None:
    run = submit("import os; os.write(2, b'a\\x00b\\xff\\n' * 100); raise SystemExit(1)")
    assert run.stderr_tail.splitlines() == ["ab\N{REPLACEMENT CHARACTER}"] * 20


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("way", ["ends", "hangs"])
def test_grandchildren_die(tmp_path: Path, session: bool, way: str) -> None:
    """One in the worker's group, one that escaped into a session of its own."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'],"
        f" start_new_session={session})\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
    )
    run = submit(code + ("time.sleep(600)" if way == "hangs" else answer()), timeout_s=2.0)
    assert run.status == ("timeout" if way == "hangs" else "ok")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.fixture
def heeded() -> Iterator[None]:
    """SIGINT as a terminal has it: what a script starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
def test_request_to_stop_kills_the_worker(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    with Interruption() as interruption:

        def interrupt() -> None:
            while not (pid_file.exists() and pid_file.read_text()):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        with pytest.raises(StopRequestedError):
            submit(code, interruption=interruption)
        thread.join()
        assert interruption.exit_code == 130
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        interruption.request(signal.SIGTERM)
        assert interruption.exit_code == 143
    assert signal.getsignal(signal.SIGINT) is before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interruption.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_missing_program_is_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match="cannot start a worker with 'no-such-program'"):
        LocalExecutor(command=["no-such-program"]).submit(job())


def test_unwritable_temporary_folder_is_infrastructure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(InfrastructureError, match="cannot make a folder for a run"):
        submit(answer())


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    descriptors, children = psutil.Process().num_fds(), psutil.Process().children()
    for code in ("raise SystemExit(1)", answer()):
        submit(code)
    assert list(tmp_path.iterdir()) == []
    assert psutil.Process().num_fds() == descriptors
    assert psutil.Process().children() == children
