"""A made-up record of verdicts with every kind of row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.analysis.verdict import Change, Need, Refusal, Subject, Summary, Verdict, Verdicts


def subject(title: str = "gqa B8 P128 N64", metric: str = "tpot", **more: Any) -> Subject:
    """A subject of the made-up record."""
    fields = {"unit": "ns", "direction": "lower", "conditions": "tiny, torch, float32, 1 thread"}
    return Subject(case_hash="c" * 64, title=title, metric=metric, **{**fields, **more})


def row(verdict: str, ratio: float | None = 1.0, **more: Any) -> Verdict:
    """A row of the made-up record."""
    about = more.pop("subject", None) or subject()
    bounds = {} if ratio is None else {"ci_low": ratio * 0.99, "ci_high": ratio * 1.01}
    base = None if ratio is None else 1.5e6
    head = None if ratio is None else 1.5e6 / ratio
    fields: dict[str, Any] = {"base": base, "head": head, "n": 8, **bounds, **more}
    return Verdict(subject=about, verdict=verdict, ratio=ratio, **fields)


def rows() -> tuple[Verdict, ...]:
    """Every kind of row."""
    return (
        row("same"),
        row("regressed", 0.8, p=1e-9, alarm=True, subject=subject("mha B1 P128 N64")),
        row("improved", 1.5, subject=subject("gqa B1 P128 N64", "ttft")),
        row("unknown", 0.9, nominated=True, reason="looks regressed, but apart",
            subject=subject("gqa B2 P128 N64")),
        row("unknown", 0.99, smallest=0.04, reason="8 pairs show changes of 4 % and more",
            subject=subject("gqa B4 P128 N64")),
        row("invalid", None, reason="the head is gate_failed: regret 0.39 <logit> | NaN",
            alarm=True,
            subject=subject("cla B1 P128 N64", "status", unit="", direction="neither")),
        row("invalid", None, reason="the head is invalid: throttled",
            subject=subject("cla B2 P128 N64", "status", unit="", direction="neither")),
        row("regressed", 0.7, change=Change(kind="step", state="acknowledged", cause="code", id="7",
            since=datetime(2026, 11, 2, tzinfo=UTC), from_revision="a" * 40,
            to_revision="b" * 40, confidence=0.98), subject=subject("mla B1 P128 N64")),
    )  # fmt: skip


@pytest.fixture
def verdicts() -> Verdicts:
    """The made-up record."""
    return Verdicts(
        tool="compare",
        title="main (4a3ceac9c182) against head (83cc1f3aa011)",
        at=datetime(2026, 12, 1, 2, 3, tzinfo=UTC),
        conditions=(("hardware", "Example CPU 9000"), ("measured", "interleaved pairs")),
        rows=rows(),
        refused=(Refusal(title="gqa B16 P128 N64", reason="unlike: dtype (float32 against fp8)"),),
        summaries=(Summary(metric="tpot", ratio=0.97, worst=0.8, best=1.0, cases=4, left_out=1),),
        needs=(Need(metric="tpot", change=0.03, usual=9, worst=31),
               Need(metric="tpot", change=0.1, usual=3, worst=None)),
        notes=("Rounds were added.",),
    )  # fmt: skip


@pytest.fixture
def many(verdicts: Verdicts) -> Verdicts:
    """The made-up record with 9,000 rows."""
    added = tuple(
        row("improved", 1.2, subject=subject(f"gqa B{n} P128 N64"), reason="word " * 20)
        for n in range(9000)
    )
    return verdicts.model_copy(update={"rows": verdicts.rows + added})
