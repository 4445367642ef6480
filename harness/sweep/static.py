"""Compiled kernels as results: a sweep row for each target, whose cases are held like timings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml

from harness.aot.figures import Compiled, Figures
from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.run import GateResult, MetricValue, RunRecord, Status
from harness.store import SweepStart
from harness.store.reader import Reader
from harness.store.rows import StoredRun
from harness.store.store import Store
from harness.suite.case import Case
from harness.suite.points import KernelPoint

SUITE = "compiled"
PREFIX = "target:"


def hardware(target: str) -> HardwareRow:
    """A target as hardware: an architecture, no device."""
    return HardwareRow(
        kind="target", name=f"{PREFIX}{target}", arch=target, memory_bytes=0, count=1, cpu=""
    )


def store_compiled(
    store: Store,
    judged: Sequence[tuple[Compiled, list[GateResult]]],
    environment: EnvironmentRow,
    revision: RevisionRow | None,
    argv: Sequence[str],
) -> dict[str, int]:
    """Store what was compiled, a sweep for each target; the sweeps' ids by target."""
    text = _suite_text(judged)
    at = datetime.now(UTC)
    ids = {}
    for target in dict.fromkeys(compiled.unit.target for compiled, _ in judged):
        start = SweepStart(
            suite=SUITE, suite_hash=hashlib.sha256(text.encode()).hexdigest(), suite_text=text,
            argv=tuple(argv), seed=0, started_at=at, hardware=hardware(target),
            environment=environment, revision=revision,
        )  # fmt: skip
        ids[target] = store.begin_sweep(start)
        mine = [(c, gates) for c, gates in judged if c.unit.target == target]
        for slot, (compiled, gates) in enumerate(mine):
            case = case_of(compiled)
            store.save_run(ids[target], case, record(compiled, gates, case, slot, at), "static")
        store.end_sweep(ids[target], "complete")
    return ids


def latest(reader: Reader) -> dict[str, list[StoredRun]]:
    """The newest stored runs of each target that kernels were compiled for."""
    found = {}
    for sweep in reader.sweeps():
        if sweep.hardware.kind == "target":
            found[sweep.hardware.arch] = sweep.id
    return {target: reader.runs(sweep_id) for target, sweep_id in found.items()}


def case_of(compiled: Compiled) -> Case:
    """The case whose history holds this function of this configuration."""
    options = {name: int(value) for name, value in compiled.options.items()}
    point = KernelPoint(
        kernel=compiled.unit.kernel, sizes=compiled.sizes, options=options,
        function=compiled.unit.function,
    )  # fmt: skip
    return Case(
        stack=None, model="", checkpoint_hash=None, workload=point, backend="triton",
        dtype=compiled.dtype,
    )  # fmt: skip


def record(
    compiled: Compiled, gates: list[GateResult], case: Case, slot: int, at: datetime
) -> RunRecord:
    """A run that compiled one function: its figures as metrics unless a gate is red."""
    status: Status = "ok"
    reason = compiled.unsupported
    red = [gate for gate in gates if not gate.passed]
    if reason is not None:
        status = "unsupported"
    elif red:
        status, reason = "gate_failed", red[0].detail
    figures = compiled.figures if status == "ok" else None
    told: Mapping[str, Any] = {"launch": compiled.launch}
    if compiled.figures is not None:
        told = {**told, "figures": compiled.figures.model_dump(mode="json")}
    return RunRecord(
        case_hash=case.hash, status=status, reason=reason, round=0, order_slot=slot, started_at=at,
        seconds=0.0, implementations={compiled.unit.kernel: "triton"}, telemetry=dict(told),
        metrics=[] if figures is None else _metrics(figures), gates=gates,
    )  # fmt: skip


def _metrics(figures: Figures) -> list[MetricValue]:
    loads = figures.wide_loads + figures.narrow_loads
    values: dict[str, float] = {
        "registers": figures.registers,
        "spill_bytes": figures.spill_bytes,
        "shared_bytes": figures.shared_bytes,
        "occupancy": figures.occupancy,
        "instructions": figures.instructions,
        "async_copies": figures.async_copies,
        "tensor_core_instructions": sum(figures.tensor_core.values()),
        "local_accesses": figures.local_accesses,
    }
    share = MetricValue(
        name="wide_load_share",
        value=figures.wide_loads / loads if loads else None,
        null_reason=None if loads else "the function reads no global memory",
        n=1,
    )
    return [*(MetricValue(name=name, value=value, n=1) for name, value in values.items()), share]


def _suite_text(judged: Sequence[tuple[Compiled, list[GateResult]]]) -> str:
    """What was compiled as a suite: the same kernels and sizes, as a `kernel` workload."""
    shapes: list[dict[str, Any]] = []
    for compiled, _ in judged:
        shape = {"kernel": compiled.unit.kernel, "sizes": dict(compiled.sizes)}
        if shape not in shapes:
            shapes.append(shape)
    return yaml.safe_dump(
        {
            "suite": SUITE,
            "about": "Machine code of every kernel, without a device.",
            "workload": {"kind": "kernel", "shapes": shapes[:64]},
            "backend": "triton",
            # The same code compiles to the same machine code: once is enough.
            "measure": {"rounds": 1},
        },
        sort_keys=False,
    )
