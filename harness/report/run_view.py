"""One run, whole: what `harness show RUN` prints."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from harness.measure.interval import median
from harness.metrics import METRICS
from harness.report import units
from harness.report.conditions import limits
from harness.report.findings import Grid
from harness.report.terminal import print_grid, print_list
from harness.run import GateResult, MetricValue, SampleSet
from harness.store.rows import StoredRun, SweepRow
from harness.suite.case import Case, StackSpec


def print_run(console: Console, run: StoredRun, sweep: SweepRow | None = None) -> None:
    """Print one run: its case, status, metrics with reasons, gates, samples and telemetry."""
    record = run.record
    console.print(Text(f"run {run.id}: {run.case.title}", style="bold"))
    console.print()
    style = "green" if record.status == "ok" else "red"
    print_list(console, [("status", record.status)], style)
    print_list(console, _facts(run, sweep), "dim")
    if record.metrics:
        console.print()
        print_grid(console, Grid("Metrics", _METRIC_HEADER, tuple(map(_metric, record.metrics))))
    if record.gates:
        console.print()
        print_grid(console, Grid("Gates", _GATE_HEADER, tuple(map(_gate, record.gates))))
        details = [(g.name, g.detail) for g in record.gates if g.detail]
        if details:
            print_list(console, details, "dim")
    if record.samples:
        console.print()
        print_grid(console, Grid("Samples", _SAMPLE_HEADER, tuple(map(_samples, record.samples))))
    if record.telemetry:
        console.print(Text("\nTelemetry", style="bold"))
        print_list(console, [(k, _plain(v)) for k, v in sorted(record.telemetry.items())], "dim")
    if record.stderr_tail.strip():
        console.print(Text("\nLast lines of stderr", style="bold"))
        for line in record.stderr_tail.strip().splitlines():
            console.print(Text(f"  {line}"), soft_wrap=True)


_METRIC_HEADER = ("metric", "value", "n", "95 % within the run")
_GATE_HEADER = ("gate", "passed", "observed", "bound", "unit")
_SAMPLE_HEADER = ("samples of", "n", "smallest", "median", "largest")


def _facts(run: StoredRun, sweep: SweepRow | None) -> list[tuple[str, str]]:
    case, record = run.case, run.record
    number = f"{case.backend}, {case.dtype}, {case.threads} thread{'s' * (case.threads > 1)}"
    graph = ", CUDA graph" if case.cuda_graph else ""
    facts = [
        ("reason", record.reason or ""),
        ("stack", "" if case.stack is None else _slots(case.stack)),
        ("model", _model(case)),
        ("case", f"{case.hash[:16]}, {number}{graph}, {case.cache_state} cache, {run.source}"),
        ("round", f"{record.round}, place {record.order_slot}, attempt {record.attempt}"),
        ("started", f"{record.started_at:%Y-%m-%d %H:%M:%S} UTC, took {record.seconds:.2f} s"),
    ]
    if record.compile_seconds is not None:
        facts.append(("compiling", f"{record.compile_seconds:.2f} s, kept apart"))
    if record.implementations:
        used = (f"{name} {how}" for name, how in sorted(record.implementations.items()))
        facts.append(("operations", ", ".join(used)))
    if sweep is not None:
        facts.append(("sweep", f"{sweep.id}: {sweep.suite} on {sweep.hardware.name}"))
        judged = None if sweep.ceilings is None else sweep.ceilings.measured.get(case.threads)
        if judged is not None:
            facts.append(("limits", limits(judged, [case.dtype])))
        if sweep.revision is not None:
            dirty = " with uncommitted changes" if sweep.revision.dirty else ""
            facts.append(("code", f"{sweep.revision.commit[:12]}{dirty}"))
    return [(name, text) for name, text in facts if text]


def _model(case: Case) -> str:
    weights = (case.checkpoint_hash or "random weights")[:14]
    return f"{case.model} ({weights})" if case.model else ""


def _slots(stack: StackSpec) -> str:
    slots = {
        "architecture": "+".join(map(_choice, stack.architecture)),
        "weights": _choice(stack.weights),
        "cache": _choice(stack.cache),
        "decoding": _choice(stack.decoding),
        "scheduling": _choice(stack.scheduling),
    }
    return ", ".join(f"{slot} {technique}" for slot, technique in slots.items())


def _choice(choice: object) -> str:
    technique, options = getattr(choice, "technique", ""), getattr(choice, "options", {})
    shown = ", ".join(f"{key}={_plain(value)}" for key, value in options.items())
    return f"{technique}({shown})" if shown else str(technique)


def _metric(metric: MetricValue) -> tuple[str, ...]:
    if metric.value is None:
        return metric.name, "undefined", "", metric.null_reason or ""
    bounds = ""
    if metric.ci_low is not None and metric.ci_high is not None:
        low, high = _value(metric.name, metric.ci_low), _value(metric.name, metric.ci_high)
        bounds = f"[{low}, {high}]"
    return metric.name, _value(metric.name, metric.value), str(metric.n), bounds


def _value(name: str, number: float) -> str:
    # A database may hold metrics of a newer or a plugin's registry.
    return units.value(name, number) if name in METRICS else units.digits(number, 6)


def _gate(gate: GateResult) -> tuple[str, ...]:
    def shown(number: float | None) -> str:
        return units.NOTHING if number is None else f"{number:.4g}"

    return (
        gate.name,
        "yes" if gate.passed else "NO",
        shown(gate.observed),
        shown(gate.bound),
        gate.unit,
    )


def _samples(samples: SampleSet) -> tuple[str, ...]:
    if not samples.values:
        return samples.metric, "0", units.NOTHING, units.NOTHING, units.NOTHING
    chosen = (min(samples.values), median(samples.values).value, max(samples.values))
    shown = (
        units.duration(v) if samples.unit == "ns" else f"{units.digits(v)} {samples.unit}"
        for v in chosen
    )
    return samples.metric, f"{len(samples.values):,}", *shown


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
