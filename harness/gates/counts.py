"""Token counts: what was emitted is what was asked for, for every request of every repetition."""

from __future__ import annotations

from collections.abc import Sequence

from harness.gates.verdict import verdict
from harness.measure.trace import Trace
from harness.run import GateResult


def check_counts(traces: Sequence[Trace], new_tokens: int, vocab: int) -> GateResult:
    """Hold each request to exactly `new_tokens` tokens inside the vocabulary."""
    worst, detail, foreign = 0, "", None
    requests = 0
    for trace in traces:
        for submission in trace.submissions:
            requests += 1
            tokens = trace.tokens(submission.request)
            off = abs(len(tokens) - new_tokens)
            if off > worst:
                worst = off
                detail = (
                    f"request {submission.request} emitted {len(tokens)} tokens of {new_tokens}"
                )
            if tokens and not 0 <= min(tokens) <= max(tokens) < vocab:
                foreign = f"request {submission.request} emitted a token outside the vocabulary"
    return verdict(
        "tokens",
        worst,
        0,
        "tokens",
        foreign or detail or f"{requests} requests of {new_tokens} tokens each",
        sound=foreign is None,
    )
