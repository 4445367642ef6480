"""pytest-benchmark's files into the store, with keys that stay, and a fixture on a made-up GPU."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import build
from harness.errors import UsageError
from harness.hardware.detection import detect
from harness.hardware.identity import HardwareRow
from harness.interop.pytest_benchmark.document import METRIC, case, read
from harness.interop.pytest_benchmark.gpu import timed
from harness.store import open_reader

NAME = "tests/benchmarks/test_kernels.py::test_kernel[rms_norm-T64-D4096-eager-float32]"
HERE = HardwareRow(
    kind="cpu", name="CPU 9000", arch="x86_64", memory_bytes=2**30, count=2, cpu="CPU 9000"
)


def _document(
    seconds: dict[str, list[float]], commit: str = "c" * 40, at: str = "2026-03-01T12:00:00+00:00",
    cpu: str = "CPU 9000", dirty: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """As version 5 writes it, without what is not read."""
    return {
        "machine_info": {
            "node": "host", "machine": "x86_64", "python_version": "3.11.7", "release": "6.1",
            "cpu": {"brand_raw": cpu, "count": 2, "hz_actual_friendly": "2.6 GHz"},
        },
        "commit_info": {
            "id": commit, "time": at, "author_time": at, "dirty": dirty, "project": "main",
            "branch": "main",
        },
        "benchmarks": [
            {
                "group": "rms_norm-float32", "name": name.rpartition("::")[2], "fullname": name,
                "params": {"call": ["UNSERIALIZABLE[KernelSpec()]", {"T": 64}]},
                "param": name.partition("[")[2].rstrip("]") or None,
                "extra_info": {"T": 64, "GB/s": 1e-9 / min(times)},
                "options": {"timer": "perf_counter", "warmup": 10},
                "stats": {
                    "min": min(times), "max": max(times), "mean": sum(times) / len(times),
                    "median": sorted(times)[len(times) // 2], "rounds": len(times),
                    "total": sum(times), "data": times,
                },
            }
            for name, times in seconds.items()
        ],
        "datetime": at,
        "version": "5.3.1",
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """A file of the benchmarks given."""
    count = iter(range(1000))

    def made(*args: Any, **kwargs: Any) -> Path:
        path = tmp_path / f"{next(count)}.json"
        path.write_text(json.dumps(_document(*args, **kwargs)))
        return path

    return made


@pytest.fixture
def app() -> typer.Typer:
    return build()


def test_a_file_is_a_round_and_its_median_has_an_interval(write: Any) -> None:
    times = [1e-6 * n for n in (10, 11, 12, 13, 14, 15, 16)]
    found = read([write({NAME: times}), write({NAME: [2e-6 * n for n in range(10, 17)]})], HERE)
    assert [record.round for _, record in found.runs] == [0, 1]
    (metric,) = found.runs[0][1].metrics
    assert metric.name == METRIC
    assert metric.value == pytest.approx(13_000)
    assert [metric.ci_low, metric.ci_high] == pytest.approx([10_000, 16_000])
    assert found.runs[0][1].samples[0].values == [round(1e9 * t) for t in times]
    assert found.runs[1][1].metrics[0].value == pytest.approx(26_000)
    assert found.start.revision is not None
    assert (found.start.revision.commit, found.start.revision.branch) == ("c" * 40, "main")
    assert found.start.environment.python == "3.11.7"


def test_the_key_of_a_benchmark_is_its_name_and_nothing_that_varies(write: Any) -> None:
    """ionelmc/pytest-benchmark#255: a clock read as 0.1 % faster made another machine of it."""
    slow = read([write({NAME: [2e-6] * 3}, at="2026-03-02T12:00:00+00:00")], HERE)
    fast = read([write({NAME: [1e-6] * 9}, commit="d" * 40)], HERE)
    (one, _), (two, _) = slow.runs[0], fast.runs[0]
    assert one.hash == two.hash == case(NAME, "rms_norm-T64-D4096-eager-float32").hash
    assert slow.start.hardware.identity_hash == fast.start.hardware.identity_hash
    assert slow.start.uid != fast.start.uid
    assert one.title == NAME
    other = case(NAME.replace("eager-float32", "triton-bfloat16"), "rms_norm-triton-bfloat16")
    assert (one.backend, one.dtype) == ("torch", "float32")
    assert (other.backend, other.dtype) == ("triton", "bfloat16")
    assert other.hash != one.hash


def test_a_benchmark_without_samples_has_a_median_and_no_interval(
    tmp_path: Path, write: Any
) -> None:
    document = _document({"t.py::test_one": [3e-6] * 8})
    del document["benchmarks"][0]["stats"]["data"]
    document["datetime"] = "2026-03-01T12:00:00"  # as older versions: UTC, and not said
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    found = read([path], HERE)
    (metric,) = found.runs[0][1].metrics
    assert metric.value == pytest.approx(3000)
    assert (metric.n, metric.ci_low) == (8, None)
    assert found.start.started_at == datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_what_was_changed_and_not_committed_is_dirty(write: Any) -> None:
    revision = read([write({NAME: [1e-6]}, dirty=True)], HERE).start.revision
    assert revision is not None
    assert revision.dirty
    assert revision.diff_hash
    assert read([write({NAME: [1e-6]}, commit="unversioned")], HERE).start.revision is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "it is no JSON"),
        ("[]", "the whole: Input should be a valid dictionary"),
        ('{"benchmarks": 3}', "machine_info: Field required"),
        (json.dumps(_document({NAME: [1e-6]}, cpu="Other")), "was measured on 'Other'"),
        (json.dumps(_document({})), "there is no benchmark in"),
        (json.dumps(_document({NAME: [float("nan")]})), "finite number"),
    ],
    ids=["no JSON", "a list", "half of it", "another machine", "nothing in it", "no number"],
)
def test_what_cannot_be_imported_is_one_sentence(
    tmp_path: Path, content: str, sentence: str
) -> None:
    """ionelmc/pytest-benchmark#276: a file of another machine ended in an error about an option."""
    path = tmp_path / "odd.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"odd\.json") as raised:
        read([path], HERE)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_of_two_commits_are_two_nights(write: Any) -> None:
    with pytest.raises(UsageError, match="another commit"):
        read([write({NAME: [1e-6]}), write({NAME: [1e-6]}, commit="d" * 40)], HERE)
    with pytest.raises(UsageError, match="cannot be read"):
        read([Path("nowhere.json")], HERE)


def test_importing_twice_adds_nothing_and_a_choice_is_a_sweep_of_its_own(
    app: typer.Typer, write: Any, tmp_path: Path
) -> None:
    other = "tests/benchmarks/test_kernels.py::test_kernel[linear-B1-eager-float32]"
    file = write({NAME: [1e-6] * 7, other: [2e-6] * 7}, cpu=detect("cpu").cpu)
    db = str(tmp_path / "r.db")
    command = ["db", "import", str(file), "--db", db, "--profile", "cpu"]
    for _ in range(2):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert "2 runs are sweep 1" in done.output
    done = CliRunner().invoke(app, [*command, "--only", "*linear*"])
    assert "1 runs are sweep 2" in done.output
    with open_reader(db) as reader:
        assert [sweep.runs for sweep in reader.sweeps()] == [2, 1]


def test_regress_reads_imported_nights_and_finds_the_slower_one(
    app: typer.Typer, write: Any, tmp_path: Path
) -> None:
    """Thirty nights of two benchmarks, one 20 % slower from night 22 on: a suspicion, no alarm."""
    source, db, here = random.Random(1), str(tmp_path / "r.db"), detect("cpu").cpu
    slow, same = NAME, "tests/benchmarks/test_kernels.py::test_kernel[linear-B1-eager-float32]"
    first = datetime.now(UTC) - timedelta(days=29, hours=1)
    for night in range(30):
        at = (first + timedelta(days=night)).isoformat()
        seconds = {
            name: [level * source.lognormvariate(0, 0.01) for _ in range(3)]
            for name, level in ((slow, 1.2e-6 if night >= 22 else 1e-6), (same, 2e-6))
        }
        file = write(seconds, commit=f"{night:040x}", at=at, cpu=here)
        done = CliRunner().invoke(app, ["db", "import", str(file), "--db", db, "--profile", "cpu"])
        assert done.exit_code == 0, done.output
    told = tmp_path / "told.json"
    done = CliRunner().invoke(app, ["regress", "--db", db, "--output", str(told)])
    assert done.exit_code == 0, done.output
    verdicts = json.loads(told.read_text())
    rows = {row["subject"]["title"]: row for row in verdicts["rows"]}
    assert rows[slow]["nominated"]
    assert rows[slow]["change"]["to_revision"] == f"{22:040x}"
    assert rows[slow]["ratio"] == pytest.approx(1 / 1.2, rel=0.03)
    assert not rows[same]["nominated"]
    # No sweep measures them again, so no command to do so is offered.
    assert not any("harness compare" in note for note in verdicts["notes"])
    done = CliRunner().invoke(app, ["compare", "1", "30", "--db", db, "--output", str(told)])
    assert done.exit_code == 0, done.output
    assert {row["subject"]["metric"] for row in json.loads(told.read_text())["rows"]} == {METRIC}


class _Event:
    def __init__(self, device: _Device) -> None:
        self.device, self.at = device, device.now

    def synchronize(self) -> None:
        self.device.said.append("wait")

    def elapsed_time(self, later: _Event) -> float:
        return later.at - self.at


class _Device:
    """A device whose clock only its work moves, in ms."""

    def __init__(self) -> None:
        self.now, self.said = 0.0, list[str]()

    def event(self) -> _Event:
        self.said.append("event")
        return _Event(self)

    def flush(self) -> None:
        self.said.append("flush")
        self.now += 5.0

    def kernel(self, ms: float) -> str:
        self.said.append("kernel")
        self.now += ms
        return "output"


def test_the_gpu_fixture_times_the_device_behind_a_flush(benchmark: Any) -> None:
    """tritonbench#519: with a warm cache a kernel looks faster; and the flush is no part of it."""
    device = _Device()
    benchmark.disabled = False
    returned = timed(benchmark, device, device.kernel, 0.25, rounds=4, warm_up=0)
    assert returned == "output"
    assert benchmark.stats.stats.data == pytest.approx([0.25e-3] * 4)
    assert device.said[:5] == ["flush", "event", "kernel", "event", "wait"]
    assert device.said.count("flush") == device.said.count("wait") == 4
