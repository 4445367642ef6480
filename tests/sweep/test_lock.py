import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import InfrastructureError
from harness.sweep.lock import DeviceLock, Holder

HOLD = """
import sys, time
from pathlib import Path
from harness.sweep.lock import DeviceLock
with DeviceLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_lock_is_held_and_let_go(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with DeviceLock(file) as lock:
        assert lock.taken_over is None
        assert json.loads(file.read_text())["pid"] == os.getpid()
        with pytest.raises(InfrastructureError, match=f"process {os.getpid()} on .* is measuring"):
            DeviceLock(file).__enter__()
    assert file.read_text() == ""
    with DeviceLock(file) as lock:
        assert lock.taken_over is None


def test_refused_attempt_does_not_disturb_the_holder(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with DeviceLock(file):
        text = file.read_text()
        for _ in range(2):
            with pytest.raises(InfrastructureError):
                DeviceLock(file).__enter__()
        assert file.read_text() == text


def test_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(InfrastructureError, match=f"process {process.pid}"):
            DeviceLock(file).__enter__()
        process.send_signal(signal.SIGKILL)
        process.wait()
    with DeviceLock(file) as lock:
        assert lock.taken_over is not None
        assert lock.taken_over.pid == process.pid


def test_worker_does_not_inherit_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with DeviceLock(file):
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    try:
        with DeviceLock(file):
            pass
    finally:
        child.kill()
        child.wait()


def write(file: Path, **changes: object) -> None:
    """The text of a lock whose holder is this process, changed."""
    holder = Holder.this_process().model_dump(mode="json")
    file.write_text(json.dumps({**holder, **changes}))


@pytest.mark.parametrize(
    "changes",
    [
        {"boot": "an earlier one"},
        {"process_started_at": 1.0},  # the pid was given to a later process
        {"pid": 2**22 + 1},  # above the kernel's largest pid
    ],
)
def test_stale_text_is_taken_over(tmp_path: Path, changes: dict[str, object]) -> None:
    file = tmp_path / "lock"
    write(file, **changes)
    with DeviceLock(file) as lock:
        assert lock.taken_over is not None


def test_live_holder_without_a_kernel_lock_is_respected(tmp_path: Path) -> None:
    """As on a file system that locks nothing."""
    file = tmp_path / "lock"
    write(file)
    with pytest.raises(InfrastructureError, match="is measuring on this machine"):
        DeviceLock(file).__enter__()


def test_holder_on_another_host_is_respected(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    write(file, host="elsewhere", pid=1, boot="unknown here")
    with pytest.raises(InfrastructureError, match="process 1 on elsewhere"):
        DeviceLock(file).__enter__()


@pytest.mark.parametrize("text", ["", "garbage", "{}", "\0\0"])
def test_nonsense_in_the_file_is_nobody(tmp_path: Path, text: str) -> None:
    file = tmp_path / "lock"
    file.write_text(text)
    with DeviceLock(file) as lock:
        assert lock.taken_over is None


def test_unwritable_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot open the lock"):
        DeviceLock(tmp_path / "missing" / "lock").__enter__()
