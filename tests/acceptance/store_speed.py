"""What the store costs: saving a run, opening, and the dashboard's queries on a large history.

    python tests/acceptance/store_speed.py [--runs 200000] [--url URL]

Prints the median, the 99th percentile and the worst of each; nothing is asserted. The large history
is written in bulk, 5 metrics a run over 1,000 cases, as years of nights would leave it.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert

from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.store import EnvironmentRow, HardwareRow, SweepStart, models, open_reader, open_store
from harness.store.store import Store
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

START = datetime(2026, 1, 1, tzinfo=UTC)
METRICS = ("tpot", "ttft", "throughput", "peak_bytes", "state_bytes")
CASES = 1000
SAVED = 500


def main(url: str, runs: int) -> None:
    """Measure and print."""
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    with open_store(url) as store:
        sweep_id = store.begin_sweep(_sweep(0))
        cases = [_case(n) for n in range(CASES)]
        pending = iter([(cases[n % CASES], _run(cases[n % CASES], n)) for n in range(SAVED)])

        def save() -> None:
            case, run = next(pending)
            store.save_run(sweep_id, case, run)

        print(f"a run: 21 metrics, 2 x 1,000 samples, 4 gates; {SAVED} times")
        _time("save_run, fresh database", save, SAVED)
        started = time.perf_counter()
        _fill(store, cases, runs)
        print(f"{runs:,} runs with {len(METRICS) * runs:,} metrics added in "
              f"{time.perf_counter() - started:.1f} s")  # fmt: skip
        pending = iter([(cases[n % CASES], _run(cases[n % CASES], n + 10**6)) for n in range(100)])
        _time("save_run, large database", save, 100)
        _time("save_run again (nothing to do)", _again(store, sweep_id, cases[0]), 100)
    _time("open_store and close", lambda: open_store(url).close(), 20)
    _time("open_reader and close", lambda: open_reader(url).close(), 20)
    with open_reader(url) as reader:
        last = reader.sweep("last").id
        print(f"queries; a sweep has {len(reader.runs(last)):,} runs")
        _time("sweeps()", reader.sweeps, 10)
        _time("runs(one sweep)", lambda: reader.runs(last), 5)
        _time("history(one case)", lambda: reader.history(cases[7].hash, "tpot"), 20)
        _time("latest(metric)", lambda: reader.latest("tpot"), 5)
        _time("cases()", reader.cases, 5)
        info = reader.info()
    if info.size_bytes is not None:
        print(f"file: {info.size_bytes / 1e6:.1f} MB")


def _time(name: str, call: Callable[[], object], times: int) -> None:
    wall, cpu = [], []
    for _ in range(times):
        started, started_cpu = time.perf_counter(), time.process_time()
        call()
        cpu.append((time.process_time() - started_cpu) * 1000)
        wall.append((time.perf_counter() - started) * 1000)
    wall.sort()
    p99 = wall[min(len(wall) - 1, round(0.99 * len(wall)))]
    print(
        f"  {name:<32} CPU median {statistics.median(cpu):8.2f} ms   "
        f"wall median {statistics.median(wall):8.2f}  p99 {p99:8.2f}  worst {wall[-1]:8.2f} ms"
    )


def _again(store: Store, sweep_id: int, case: Case) -> Callable[[], object]:
    run = _run(case, 0)
    return lambda: store.save_run(sweep_id, case, run)


def _fill(store: Store, cases: list[Case], runs: int) -> None:
    """Sweeps of one run a case, written past `save_run` and its checks."""
    with store.engine.begin() as connection:
        known = {row.hash: row.id for row in connection.execute(models.Case.__table__.select())}
        missing = [case for case in cases if case.hash not in known]
    assert len(missing) == CASES - min(SAVED, CASES)
    for case in missing:
        sweep_id = store.begin_sweep(_sweep(0))
        known[case.hash] = 0
        store.save_run(sweep_id, case, _run(case, 10**7))
    with store.engine.begin() as connection:
        known = {row.hash: row.id for row in connection.execute(models.Case.__table__.select())}
    for night in range(1, runs // CASES + 1):
        sweep_id = store.begin_sweep(_sweep(night))
        with store.engine.begin() as connection:
            first = night * 10_000_000
            rows = list(_rows(sweep_id, first, [known[case.hash] for case in cases], night))
            connection.execute(insert(models.Run), [run for run, _ in rows])
            connection.execute(insert(models.Metric), [m for _, metrics in rows for m in metrics])


def _rows(
    sweep_id: int, first: int, case_ids: list[int], night: int
) -> Iterator[tuple[dict[str, object], list[dict[str, object]]]]:
    for n, case_id in enumerate(case_ids):
        run = {
            "id": first + n, "sweep_id": sweep_id, "case_id": case_id, "source": "measured",
            "label": "mha", "round": 0, "order_slot": n, "attempt": 1, "format_version": 1,
            "status": "ok", "started_at": START + timedelta(days=night), "seconds": 3.0,
            "implementations": {"attention": "torch"}, "telemetry": {}, "stderr_tail": "",
        }  # fmt: skip
        metrics: list[dict[str, object]] = [
            {"run_id": first + n, "name": name, "value": 1e6 + n, "n": 20} for name in METRICS
        ]
        yield run, metrics


def _sweep(night: int) -> SweepStart:
    return SweepStart(
        uid=f"{night:032d}",
        suite="nightly",
        suite_hash="a" * 64,
        suite_text="",
        argv=(),
        seed=0,
        started_at=START + timedelta(days=night),
        hardware=HardwareRow(kind="cpu", name="x", arch="x", memory_bytes=1, count=1, cpu="x"),
        environment=EnvironmentRow(python="3", os="Linux"),
    )


def _case(number: int) -> Case:
    return Case(
        stack=StackSpec(
            label="mha",
            architecture=(Choice(technique="mha"),),
            weights=Choice(technique="dense"),
            cache=Choice(technique="contiguous"),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        ),
        model="tiny",
        checkpoint_hash=None,
        workload=GeneratePoint(batch=number + 1, prompt_tokens=128, new_tokens=64),
    )


def _run(case: Case, number: int) -> RunRecord:
    values = [1_500_000 + (n * 7919 * (number + 1)) % 40_000 for n in range(1000)]
    names = [f"metric_{n}" for n in range(16)] + list(METRICS)
    return RunRecord(
        case_hash=case.hash,
        status="ok",
        round=number,
        order_slot=number,
        started_at=START,
        seconds=3.0,
        implementations={"attention": "torch", "norm": "torch"},
        telemetry={"clock_mhz": list(range(50))},
        metrics=[
            MetricValue(name=name, value=1e6, n=20, ci_low=9e5, ci_high=2e6) for name in names
        ],
        samples=[SampleSet(metric=m, unit="ns", values=values) for m in ("step_gap", "ttft")],
        gates=[
            GateResult(name=name, passed=True, observed=1e-7, bound=1e-6, unit="abs")
            for name in ("numeric", "numeric_float32", "regret", "plausibility")
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--url", help="an empty database; default: a temporary file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        main(arguments.url or str(Path(folder) / "store.db"), arguments.runs)
