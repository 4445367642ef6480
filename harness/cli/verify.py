"""`harness verify`: the gates of techniques, without timing anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.listing import PluginPaths, Row, Table, print_table
from harness.errors import NothingMeasuredError, UsageError
from harness.exit_codes import ExitCode

if TYPE_CHECKING:
    from harness.run import GateResult, RunRecord
    from harness.worker.job import Job

_FAMILY, _FALLBACK = "zoo/small", "tiny"
# (B, P, N): long enough for prefill, decode and a ragged batch; the interpreter is slow.
_POINT, _INTERPRETED_POINT = (3, 40, 16), (2, 12, 4)
_TIMEOUT_S = 600


class Backend(StrEnum):
    """Whose kernels are verified."""

    TORCH = "torch"
    TRITON = "triton"


def register(app: typer.Typer) -> None:
    """Add `verify` to the application."""

    @app.command()
    def verify(
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="NAME", help="Techniques, or stacks; all techniques."),
        ] = None,
        backend: Annotated[
            Backend, typer.Option(help="Without a GPU, triton runs in its interpreter.")
        ] = Backend.TORCH,
        plugin_path: PluginPaths = None,
    ) -> None:
        """Hold techniques to their references, each alone in a stack of baselines.

        Ends with 1 where a gate is red, with 3 where no gate could be tried.
        """
        from harness import registry

        paths = plugin_path or []
        wanted = names or registry.names(paths)
        jobs = [_job(name, backend, paths) for name in wanted]
        rows, statuses = [], []
        for i, (name, job) in enumerate(zip(wanted, jobs, strict=True), 1):
            if sys.stderr.isatty():
                typer.echo(f"{name}, {i} of {len(wanted)}", err=True)
            record = _in_process(job, interpreted=_interpreted(job))
            rows.append(_row(name, job, record))
            statuses.append(record.status)
        print_table(Table(("stack", "model", "kernels", "numeric", "regret", "verdict"), rows))
        if any(status not in ("ok", "unsupported") for status in statuses):
            raise typer.Exit(ExitCode.NEGATIVE)
        if "ok" not in statuses:
            raise NothingMeasuredError("no gate could be tried; the table says why")


def _job(name: str, backend: Backend, plugin_paths: Sequence[str]) -> Job:
    """A gate job for one technique or stack, in float32."""
    from harness import stack
    from harness.hardware.detection import detect
    from harness.model import source
    from harness.suite.case import Case, GateSettings, MeasureSettings
    from harness.suite.points import GeneratePoint
    from harness.worker.job import Job

    spec = stack.parse(name, plugin_paths)
    architectures = spec.member_names
    device = detect().kind
    interpreted = backend is Backend.TRITON and device == "cpu"
    try:
        model = source.find(_FALLBACK if interpreted else _FAMILY, architectures)
    except UsageError:
        # The family is not there, or has no member trained with this architecture.
        model = source.find(_FALLBACK, architectures)
    batch, prompt_tokens, new_tokens = _INTERPRETED_POINT if interpreted else _POINT
    case = Case(
        stack=stack.completed(spec, model),
        model=model.name,
        checkpoint_hash=model.checkpoint_hash,
        workload=GeneratePoint(batch=batch, prompt_tokens=prompt_tokens, new_tokens=new_tokens),
        backend=backend.value,
    )
    return Job(
        case=case,
        measure=MeasureSettings(),
        gate=GateSettings(),
        seed=0,
        round=0,
        order_slot=0,
        device=device,
        plugin_paths=tuple(str(Path(path).resolve()) for path in plugin_paths),
    )


def _interpreted(job: Job) -> bool:
    return job.case.backend == "triton" and job.device == "cpu"


def _in_process(job: Job, *, interpreted: bool) -> RunRecord:
    """The gates in a worker of their own, so that a crash is one row."""
    from harness.run import RunRecord

    flags = ["--verify", *(["--interpret"] if interpreted else [])]
    with TemporaryDirectory(prefix="harness-verify-") as folder:
        given, answer = Path(folder) / "job.json", Path(folder) / "run.json"
        given.write_text(job.model_dump_json())
        command = [sys.executable, "-P", "-m", "harness.worker", *flags, str(given), str(answer)]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return _broken(job, "timeout", f"no verdict within {_TIMEOUT_S} s")
        if not answer.exists():
            return _broken(job, "crashed", f"the worker ended with {done.returncode}")
        return RunRecord.model_validate_json(answer.read_bytes())


def _broken(job: Job, status: str, reason: str) -> RunRecord:
    from datetime import UTC, datetime

    from harness.run import RunRecord

    return RunRecord.model_validate(
        {
            "case_hash": job.case.hash,
            "status": status,
            "reason": reason,
            "round": 0,
            "order_slot": 0,
            "started_at": datetime.now(UTC),
            "seconds": 0.0,
        }
    )


def _row(name: str, job: Job, record: RunRecord) -> Row:
    """One line: how far within their bounds the gates were, and the verdict in words."""
    gates = {gate.name: gate for gate in record.gates}
    red = [gate for gate in record.gates if not gate.passed]
    if red:
        verdict = "RED: " + ", ".join(gate.name for gate in red) + f" ({red[0].detail})"
    elif record.status == "ok":
        verdict = f"green, {len(gates)} gates"
    elif record.status == "unsupported":
        verdict = f"not tried: {record.reason}"
    else:
        verdict = f"RED: {record.status}, {record.reason}"
    kernels = ", ".join(f"{k}: {v}" for k, v in sorted(record.implementations.items()))
    return (
        name,
        job.case.model,
        kernels or "-",
        _share(gates.get("numeric_max")),
        _share(gates.get("regret")),
        verdict,
    )


def _share(gate: GateResult | None) -> str:
    """Observed over bound, the part of what is permitted that was used."""
    if gate is None or gate.observed is None or not gate.bound:
        return "-"
    return f"{gate.observed / gate.bound:.2f} of bound"
