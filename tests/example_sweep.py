"""A made-up sweep with every kind of row, shaped like a real one: for tests of reports.

Times follow a small model (a constant, the weights, the tokens read) with seeded noise a process
and a drift a round, so that the right answers are known: gqa reads half the state of mha, recompute
grows with the sequence.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.run import GateResult, MetricValue, RunRecord, SampleSet, Status
from harness.store.rows import StoredRun, SweepRow, SweepStart
from harness.suite.case import Case, Choice, StackSpec
from harness.suite.points import GeneratePoint

STARTED = datetime(2026, 11, 30, 21, 4, tzinfo=UTC)
# The preset "tiny", so that a plan of the case exists everywhere.
MODEL, LAYERS, HEAD_DIM, KV_HEADS = "tiny", 3, 16, {"mha": 4, "gqa": 1}

SUITE_TEXT = """\
suite: decode
about: Time per token against batch and context.
stacks: [mha, gqa, mha+recompute]
baseline: mha
workload: {kind: generate, batch: [1, 8], prompt_tokens: [128, 512, 1024], new_tokens: 64}
measure: {rounds: 3, min_samples: 20, max_seconds: 20, precision: 0.02}
model: tiny
"""


def case(stack: str, batch: int = 1, prompt: int = 128, new: int = 64, **fields: Any) -> Case:
    """A case of the made-up sweep; the stack is architecture[+cache]."""
    architecture, _, cache = stack.partition("+")
    return Case(
        stack=StackSpec(
            label=stack,
            architecture=(Choice(technique=architecture),),
            weights=Choice(technique="dense"),
            cache=Choice(technique=cache or "contiguous"),
            decoding=Choice(technique="autoregressive"),
            scheduling=Choice(technique="static"),
        ),
        model=fields.pop("model", MODEL),
        checkpoint_hash=fields.pop("checkpoint_hash", None),
        workload=GeneratePoint(batch=batch, prompt_tokens=prompt, new_tokens=new),
        **fields,
    )


def record(
    of: Case,
    number: int = 1,
    status: Status = "ok",
    metrics: dict[str, float | None] | None = None,
    **fields: Any,
) -> RunRecord:
    """A run record with these metrics; None becomes NULL with a reason."""
    return RunRecord(
        case_hash=of.hash,
        status=status,
        round=number,
        order_slot=fields.pop("order_slot", 0),
        started_at=fields.pop("started_at", STARTED),
        seconds=fields.pop("seconds", 4.2),
        metrics=[
            MetricValue(
                name=name,
                value=value,
                null_reason="too few gaps" if value is None else None,
                n=0 if value is None else 63,
            )
            for name, value in (metrics or {}).items()
        ],
        **fields,
    )


def stored(of: Case, *records: RunRecord, first_id: int = 1) -> list[StoredRun]:
    """These records as the store gives them."""
    return [StoredRun(first_id + i, of, r) for i, r in enumerate(records)]


def rounds(of: Case, metric: str, values: list[float], first_id: int = 1) -> list[StoredRun]:
    """One ok run a value of one metric."""
    made = [record(of, i + 1, metrics={metric: v}) for i, v in enumerate(values)]
    return stored(of, *made, first_id=first_id)


def start() -> SweepStart:
    """The conditions of the made-up sweep."""
    return SweepStart(
        uid="example",
        suite="decode",
        suite_hash="3f" * 32,
        suite_text=SUITE_TEXT,
        argv=("sweep", "suites/decode.yaml"),
        seed=20261130,
        started_at=STARTED,
        hardware=HardwareRow(
            kind="cpu",
            name="Example CPU 9000 @ 2.40GHz",
            arch="x86_64",
            memory_bytes=25_000_000_000,
            count=2,
            cpu="Example CPU 9000 @ 2.40GHz",
        ),
        environment=EnvironmentRow(
            torch="2.13.0+cpu",
            triton="3.7.1",
            python="3.11.7",
            os="Linux 6.1 (Debian 12)",
            variables={"OMP_NUM_THREADS": "1"},
        ),
        revision=RevisionRow(
            repo="inference-harness",
            commit="4a3ceac9c182c27cab2ae2c82fad404736e739a7",
            branch="main",
            committed_at=STARTED - timedelta(hours=2),
            dirty=True,
            diff_hash="ab" * 32,
        ),
    )


def row() -> SweepRow:
    """The made-up sweep as the store gives it."""
    return SweepRow(
        **start().model_dump(),
        id=7,
        status="complete",
        ended_at=STARTED + timedelta(minutes=6, seconds=12),
        runs=len(runs()),
    )


def runs() -> list[StoredRun]:
    """Every run of the made-up sweep, in the random order in which they ran."""
    noise = random.Random(3)
    made: list[tuple[Case, RunRecord]] = []
    for number in (1, 2, 3):
        drift = math.exp(noise.gauss(0, 0.02))
        cases = [
            case(stack, batch, prompt)
            for stack in ("mha", "gqa", "mha+recompute")
            for batch in (1, 8)
            for prompt in (128, 512, 1024)
        ]
        noise.shuffle(cases)
        for one in cases:
            slot = len(made)
            at = STARTED + timedelta(seconds=6.5 * slot)
            made.append((one, _run(one, number, slot, at, drift, noise)))
    return [StoredRun(i + 1, one, run) for i, (one, run) in enumerate(made)]


def step_ns(of: Case, held: float) -> float:
    """The true time of one decode step with `held` tokens in each sequence."""
    w, name = of.generated, of.composed.architecture[0].technique
    if of.composed.cache.technique == "recompute":
        return 9e5 + 2.1e4 * w.batch * held
    return 1.2e6 + 4e4 * w.batch + 60.0 * w.batch * held * KV_HEADS[name]


def state_bytes(of: Case) -> int:
    """B*(P+N-1)*L*K*H*2*bytes, nothing where nothing is held."""
    w = of.generated
    if of.composed.cache.technique == "recompute":
        return 0
    heads = KV_HEADS[of.composed.architecture[0].technique]
    return w.batch * (w.prompt_tokens + w.new_tokens - 1) * LAYERS * heads * HEAD_DIM * 2 * 4


def _run(
    of: Case, number: int, slot: int, at: datetime, drift: float, noise: random.Random
) -> RunRecord:
    w = of.generated
    common: dict[str, Any] = {"order_slot": slot, "started_at": at}
    if of.label == "mha+recompute" and w.batch == 8 and w.prompt_tokens == 1024:
        if number > 1:
            reason = "round 1 of this case ran out of memory"
            return record(of, number, "skipped", reason=reason, seconds=0.0, **common)
        return record(
            of,
            number,
            "oom",
            reason="killed by the kernel after allocating 14.2 GB of 14.0 GB",
            stderr_tail="Killed",
            **common,
        )
    if of.label == "gqa" and w.batch == 8 and w.prompt_tokens == 512 and number == 2:
        failed = GateResult(
            name="exactness",
            passed=False,
            observed=0.39,
            bound=2.4e-5,
            unit="logit",
            detail="regret of token 17 of request 3",
        )
        reason = "exactness: regret 0.39 logit is above its bound 2.4e-05"
        return record(of, number, "gate_failed", reason=reason, gates=[failed], **common)
    process = drift * math.exp(noise.gauss(0, 0.008))
    gaps = [
        int(step_ns(of, w.prompt_tokens + j) * process * math.exp(abs(noise.gauss(0, 0.02))))
        for j in range(1, w.new_tokens)
    ]
    tpot = sum(gaps) / len(gaps)
    ttft = (8e5 + 2.1e4 * w.batch * w.prompt_tokens) * process
    total = ttft + sum(gaps)
    state = state_bytes(of)
    metrics: dict[str, float | None] = {
        "ttft": ttft,
        "tpot": tpot,
        "itl_p50": sorted(gaps)[len(gaps) // 2],
        "itl_p90": sorted(gaps)[int(len(gaps) * 0.9)],
        "itl_p99": None,
        "e2e": total,
        "throughput": w.batch * w.new_tokens / total * 1e9,
        "peak_bytes": 46_000_000 + 1.3 * state,
        "state_bytes": state,
        "reserved_bytes": state,
        "weights_bytes": 29_360_128,
        "roofline_fraction": 0.41,
    }
    gates = [
        GateResult(name="numeric", passed=True, observed=3.1e-6, bound=1.2e-5, unit="logit"),
        GateResult(name="exactness", passed=True, observed=0.0, bound=2.4e-5, unit="logit"),
        GateResult(name="plausibility", passed=True, observed=0.41, bound=1.0, unit="ratio"),
    ]
    common["samples"] = [SampleSet(metric="step_gap", unit="ns", values=gaps)]
    common["implementations"] = {"attention": "torch"}
    slow = of.label == "mha+recompute"
    common["telemetry"] = {
        "gates_off": [],
        "warm_up": {"repetitions": 2, "stable": True, "seconds": 0.4},
        "sampling": {
            "repetitions": 1,
            "seconds": 20.1 if slow else 3.2,
            "stopped": "time" if slow else "precision",
            "precision": 0.031 if slow else 0.017,
            "precision_wanted": 0.02,
        },
        "timed": {"wall_seconds": 3.2, "cpu_seconds": 3.19, "cpu_share": 0.997},
    }
    return record(of, number, metrics=metrics, gates=gates, **common)
