from pathlib import Path

import psutil

from harness.sweep.memory import available_bytes, oom_kills


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_kills_are_read_from_the_kernel(tmp_path: Path) -> None:
    write(tmp_path / "vmstat", "nr_free_pages 5\noom_kill 12\noom_kill_other 3\n")
    assert oom_kills(tmp_path) == 12


def test_kills_are_unknown_where_the_kernel_tells_nothing(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None
    write(tmp_path / "vmstat", "nr_free_pages 5\n")
    assert oom_kills(tmp_path) is None


def test_machine_without_cgroups_has_what_is_left(tmp_path: Path) -> None:
    left = available_bytes(tmp_path, tmp_path)
    assert 0 < left <= psutil.virtual_memory().total


def test_nearest_limits_bind(tmp_path: Path) -> None:
    """Version 2: the limit of the group or of one above it, whichever leaves less."""
    write(tmp_path / "proc/self/cgroup", "0::/jobs/one\n")
    write(tmp_path / "cgroup/jobs/one/memory.max", "max\n")
    write(tmp_path / "cgroup/jobs/one/memory.current", "50\n")
    write(tmp_path / "cgroup/jobs/memory.max", "1000\n")
    write(tmp_path / "cgroup/jobs/memory.current", "400\n")
    assert available_bytes(tmp_path / "proc", tmp_path / "cgroup") == 600


def test_limits_of_version_1_bind(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n")
    write(tmp_path / "cgroup/memory/x/memory.limit_in_bytes", "1000\n")
    write(tmp_path / "cgroup/memory/x/memory.usage_in_bytes", "1500\n")
    assert available_bytes(tmp_path / "proc", tmp_path / "cgroup") == 0
