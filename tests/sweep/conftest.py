"""Cases and fakes that the tests of sweeps share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.run import MetricValue, RunRecord
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint
from harness.worker.job import Job

MakeCase = Callable[..., Case]
MakeRecord = Callable[..., RunRecord]


@pytest.fixture
def make_case() -> MakeCase:
    """A case of the stack `label`, of that size; other fields by name."""

    def make(
        label: str = "mha", batch: int = 1, prompt: int = 8, new: int = 4, **fields: Any
    ) -> Case:
        stack = StackSpec(
            label=label,
            architecture=(Choice(technique=label),),
            weights=Choice(technique="dense"),
            cache=Choice(technique="contiguous"),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        )
        point = GeneratePoint(batch=batch, prompt_tokens=prompt, new_tokens=new)
        values = {"model": "tiny", "checkpoint_hash": None, **fields}
        return Case(stack=stack, workload=point, **values)

    return make


@pytest.fixture
def make_record() -> MakeRecord:
    """A record of a case's run with that status."""

    def make(
        case: Case, status: Any = "ok", number: int = 1, attempt: int = 1, slot: int = 0
    ) -> RunRecord:
        return RunRecord(
            case_hash=case.hash,
            status=status,
            reason=None if status == "ok" else f"made {status}",
            round=number,
            order_slot=slot,
            attempt=attempt,
            started_at=datetime.now(UTC),
            seconds=1.0,
            metrics=[MetricValue(name="tpot", value=5.0)] if status == "ok" else [],
        )

    return make


# A package that answers jobs as the real one does, with a speed of its own and nothing heavy.
_FAKE = {
    "harness/__init__.py": "",
    "harness/worker/__init__.py": "",
    "harness/speed.py": "NS = {ns}\n",
    "harness/worker/job.py": """
class Job:
    @staticmethod
    def model_json_schema():
        return {schema}
""",
    "harness/worker/__main__.py": """
import datetime, json, os, pathlib, random, sys
from harness.speed import NS
job = json.loads(pathlib.Path(sys.argv[1]).read_text())
noise = random.Random(os.getpid()).gauss(1, 0.001)
pathlib.Path(sys.argv[2]).write_text(json.dumps({{
    "case_hash": os.environ["FAKE_HASH_" + job["case"]["stack"]["label"]], "status": "ok",
    "round": job["round"], "order_slot": job["order_slot"], "attempt": job["attempt"],
    "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(), "seconds": 0.1,
    "telemetry": {{"pid": os.getpid()}}, "metrics": [{{"name": "tpot", "value": NS * noise}}],
}}))
""",
    "kernels/README.md": "no package\n",
}


@pytest.fixture
def make_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_case: MakeCase
) -> Callable[..., Path]:
    """make_repository({"v1": ns, ...}, unknown={"Job": ["clock"]}): a git checkout, a tag a speed.

    Workers of its revisions answer that every token takes so many ns; `unknown` are fields that
    they do not know.
    """
    for label in ("mha", "gqa"):
        monkeypatch.setenv(f"FAKE_HASH_{label}", make_case(label).hash)

    def make(tags: dict[str, int], unknown: dict[str, list[str]] | None = None) -> Path:
        repo = tmp_path / "repo"
        schema = Job.model_json_schema()
        parts = {**schema["$defs"], "Job": schema}
        for name, fields in (unknown or {}).items():
            for field in fields:
                del parts[name]["properties"][field]
        for tag, ns in tags.items():
            for name, text in _FAKE.items():
                file = repo / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text.format(ns=ns, schema=repr(schema)))
            for command in (
                ["init", "-q"],
                ["add", "-A"],
                ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", tag],
                ["tag", tag],
            ):
                subprocess.run(["git", "-C", str(repo), *command], check=True)
        return repo

    return make
