"""Made-up sweeps and runs, and the databases that the store's tests run on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, make_url, text

from harness.run import GateResult, MetricValue, RunRecord, SampleSet
from harness.store import EnvironmentRow, HardwareRow, RevisionRow, SweepStart
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

START = datetime(2026, 3, 1, 22, 0, 0, 123456, tzinfo=UTC)
PG_URL = "HARNESS_TEST_PG_URL"

MakeCase = Callable[..., Case]
MakeRun = Callable[..., RunRecord]
MakeSweep = Callable[..., SweepStart]


@pytest.fixture(scope="session")
def server_url() -> Iterator[str | None]:
    """A database of this test process on the server that PG_URL names; None where none is named."""
    if PG_URL not in os.environ:
        yield None
        return
    given = make_url(os.environ[PG_URL])
    name = f"{given.database}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    admin = create_engine(given, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f'DROP DATABASE IF EXISTS "{name}"'))
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    yield given.set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(text(f'DROP DATABASE "{name}"'))
    admin.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, server_url: str | None) -> str:
    """An empty database: a file, and a server's where one is given."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    if server_url is None:
        pytest.skip(f"{PG_URL} names no PostgreSQL database")
    _empty(server_url)
    return server_url


@pytest.fixture
def make_case() -> MakeCase:
    """make_case(batch=1, label="gqa", kv_heads=2) -> Case."""

    def make(batch: int = 1, label: str = "gqa", kv_heads: int = 2) -> Case:
        return Case(
            stack=StackSpec(
                label=label,
                architecture=(Choice(technique="gqa", options={"kv_heads": kv_heads}),),
                weights=Choice(technique="dense"),
                cache=Choice(technique="recompute"),
                decoding=Choice(technique="autoregressive"),
                scheduling=Choice(technique="static"),
            ),
            model="zoo/small-gqa",
            checkpoint_hash="c" * 64,
            workload=GeneratePoint(batch=batch, prompt_tokens=128, new_tokens=64),
        )

    return make


@pytest.fixture
def make_run() -> MakeRun:
    """make_run(case, round=0, tpot=1.5e6, **fields) -> an ok run, or a failed one by status."""

    def make(case: Case, round: int = 0, tpot: float = 1.5e6, **fields: object) -> RunRecord:  # noqa: A002
        ok = fields.get("status", "ok") == "ok"
        values: dict[str, object] = {
            "case_hash": case.hash,
            "status": "ok",
            "round": round,
            "order_slot": 7,
            "started_at": START + timedelta(minutes=round),
            "seconds": 3.25,
            "compile_seconds": 0.5,
            "implementations": {"attention": "torch"},
            "telemetry": {"clock_mhz": [1980, 1975], "note": "µ ✓"},
            "metrics": [
                MetricValue(name="tpot", value=tpot, n=20, ci_low=tpot * 0.9, ci_high=tpot * 1.1),
                MetricValue(name="itl_p99", value=None, null_reason="needs 100 gaps, has 63", n=63),
                MetricValue(name="energy_per_token", value=None, null_reason="no counter"),
            ]
            if ok
            else [],
            "samples": [SampleSet(metric="tpot", unit="ns", values=[1_500_000, -1, 2**62])],
            "gates": [
                GateResult(
                    name=name, passed=True, observed=1e-7, bound=2e-6, unit="abs", detail=detail
                )
                for name, detail in (("numeric", "before"), ("numeric", "after"), ("regret", ""))
            ],
        }
        return RunRecord.model_validate(values | fields)

    return make


@pytest.fixture
def make_sweep() -> MakeSweep:
    """make_sweep(uid="0" * 32, day=0, **fields) -> SweepStart."""

    def make(uid: str = "0" * 32, day: int = 0, **fields: object) -> SweepStart:
        values: dict[str, object] = {
            "uid": uid,
            "suite": "decode",
            "suite_hash": "a" * 64,
            "suite_text": "suite: decode\n",
            "argv": ("sweep", "suites/decode.yaml"),
            "seed": 2**62,
            "started_at": START + timedelta(days=day),
            "hardware": HardwareRow(
                kind="cpu", name="Xeon", arch="x86_64", memory_bytes=2**37, count=2, cpu="Xeon"
            ),
            "environment": EnvironmentRow(
                torch="2.13.0", python="3.11.7", os="Linux", variables={"OMP_NUM_THREADS": "1"}
            ),
            "revision": RevisionRow(
                repo="inference-harness", commit="f" * 40, branch="main", committed_at=START
            ),
        }
        return SweepStart.model_validate(values | fields)

    return make


def _empty(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        tables = MetaData()
        tables.reflect(connection)
        tables.drop_all(connection)
    engine.dispose()
