"""Suites with the workload `serve`: their points, their room, and contradictions in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.suite import Suite, cases, traces
from harness.suite.points import ServePoint

LoadText = Callable[..., Suite]

SERVE = """\
suite: small
stacks: [mha+static, mha+continuous, mha+paged+continuous]
model: tiny
workload:
  kind: serve
  requests: 20
  trace: azure-2023-code
  scale: 0.01
  rate: [2, 4]
  slots: [4, 8]
  state_mb: 0.5
exclude: [{rate: 4, slots: 8}]
"""


def test_points_and_limits(load_text: LoadText) -> None:
    planned = cases(load_text(text=SERVE), "cpu")
    points = [entry.case.workload for entry in planned if entry.case.label == "mha+continuous"]
    assert [(p.slots, p.rate) for p in points if isinstance(p, ServePoint)] == [
        (4, 2.0),
        (4, 4.0),
        (8, 2.0),
    ]
    plan = planned[0].plan
    assert plan is not None
    assert plan.limits.state_bytes == 500_000
    # As long as the longest request of the window.
    assert 20 < plan.limits.max_tokens < 110
    assert planned[0].case.title == ("mha azure-2023-code x0.01, 2/s slots 4 0.5 MB")
    assert len({entry.case.hash for entry in planned}) == 9


def test_a_trace_is_part_of_the_case(load_text: LoadText, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    hashes = []
    for tokens in (50, 60):
        rows = "".join(f"2024-01-01 00:00:{i:02d},{tokens},5\n" for i in range(20))
        file.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
        traces._read.cache_clear()
        suite = load_text("azure-2023-code", str(file), "scale: 0.01", "scale: 1", text=SERVE)
        hashes.append(cases(suite, "cpu")[0].case.hash)
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  rate: [2, 4]\n", "", "comes as poisson at no rate; add rate: 2"),
        ("  kind: serve\n", "  kind: serve\n  arrivals: at_once\n", "comes at once and has a rate"),
        ("  scale: 0.01\n", "  burstiness: 2\n", "has a burstiness and comes as poisson"),
        ("  trace: azure-2023-code\n", "", "names no lengths; add a trace, or prompt_tokens"),
        ("  scale: 0.01\n", "  prompt_tokens: 5\n", "has lengths of its own beside those of its"),
        ("  scale: 0.01\n", "  prefixes: 4\n", "has several prefixes of no tokens"),
        ("requests: 20", "requests: 0", "workload.requests must be greater than 0 (got 0)"),
        ("scale: 0.01", "scale: 2", "workload.scale must be at most 1 (got 2)"),
        ("rate: [2, 4]", "rate: -1", "workload.rate must be greater than 0 (got -1)"),
        ("rate: 4,", "batch: 4,", "unknown axis of a serve workload 'batch'"),
        ("azure-2023-code", "azure", "unknown trace 'azure'; did you mean 'azure-2023-co"),
        ("requests: 20", "requests: 9000", "holds 2,000 requests, and 9,000 are asked for"),
    ],
)
def test_contradictions(load_text: LoadText, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        cases(load_text(old, new, text=SERVE), "cpu")
    assert message in str(caught.value)
    assert "small.yaml, line" in str(caught.value)


def test_a_window_that_the_model_has_no_places_for(load_text: LoadText) -> None:
    with pytest.raises(UsageError, match="places"):
        cases(load_text("scale: 0.01", "scale: 1", text=SERVE), "cpu")
