"""The gates of one repetition put together: what is judged before timing, and what after.

Before: one repetition at the case's own shape with its logits watched. After: the tokens of the
last timed repetition, whose prompts nobody had seen, so remembered answers cannot pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.gates import reference
from harness.gates.counts import check_counts
from harness.gates.observe import LogitsLog
from harness.gates.regret import agreement, check_regret, check_related
from harness.gates.tolerance import Errors, check_numeric
from harness.gates.verdict import failed
from harness.measure.prompts import Prompts
from harness.measure.trace import Trace
from harness.plan import EnginePlan
from harness.run import GateResult
from harness.suite.case import GateSettings, StackSpec
from harness.technique import Exactness, Slot


@dataclass(frozen=True)
class Bench:
    """What the references of a stack need."""

    stack: StackSpec
    plan: EnginePlan
    weights: dict[str, Tensor]  # as the engine was given them
    device: str = "cpu"

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the plan."""
        found: torch.dtype = getattr(torch, self.plan.dtype)
        return found

    def judge(self, prompt: Sequence[int], emitted: Sequence[int]) -> reference.Judged:
        """The reference's logits for each emitted token."""
        return reference.judge(self.stack, self.plan, self.weights, prompt, emitted, self.device)

    @property
    def exact_logits(self) -> bool:
        """Whether the logits must be the reference's, given the same tokens: a lossy cache's are
        not."""
        return reference.promised(self.stack, {Slot.CACHE}) is not Exactness.LOSSY

    @property
    def exact_tokens(self) -> bool:
        """Whether greedy tokens must be the reference's choice, up to ties."""
        slots = {Slot.CACHE, Slot.DECODING, Slot.SCHEDULING}
        return reference.promised(self.stack, slots) is not Exactness.LOSSY


@dataclass(frozen=True)
class Judgement:
    """Gate results, and the share of tokens that were the reference's own choice."""

    gates: list[GateResult]
    agreement: float | None = None
    left_out: tuple[str, ...] = ()  # checks that the stack does not promise to pass, and why

    @property
    def passed(self) -> bool:
        """Whether every gate passed."""
        return all(gate.passed for gate in self.gates)


def check_watched(
    bench: Bench,
    settings: GateSettings,
    prompts: Prompts,
    trace: Trace,
    new_tokens: int,
    chosen: list[int],
    log: LogitsLog,
    suffix: str = "",
) -> Judgement:
    """Judge one repetition whose chosen requests were watched: counts, logits, tokens.

    Stops at the counts when they are wrong: there is then nothing to compare row by row.
    """
    counts = check_counts([trace], new_tokens, bench.plan.shape.vocab)
    counts = counts.model_copy(update={"name": f"tokens{suffix}"})
    if not counts.passed:
        return Judgement([counts])
    if not (settings.numeric or settings.exactness):
        return Judgement([counts])
    seen = [log.of(i, len(prompts[i]), new_tokens) for i in chosen]
    emitted, judged = _judged(bench, prompts, trace, chosen)
    gates = [counts]
    left_out = []
    if settings.numeric and not bench.exact_logits:
        left_out.append("numeric: the cache is lossy")
    elif settings.numeric:
        name = f"numeric{suffix}"
        if any(rows is None for rows in seen):
            detail = "the engine did not show the logits of every emitted token"
            gates.append(failed(f"{name}_max", "logit", detail))
        else:
            output = torch.cat([rows for rows in seen if rows is not None])
            gates += check_numeric(
                output, judged.trusted, judged.exact, bench.dtype, name=name, own=judged.own
            )
    if settings.exactness and not bench.exact_tokens:
        left_out.append("regret: the stack is lossy; its tokens are only held to their prompts")
    elif settings.exactness:
        gates += check_regret(
            judged.exact,
            judged.trusted,
            emitted,
            bench.dtype,
            name=f"regret{suffix}",
            own=judged.own,
        )
    return Judgement(gates, agreement(judged.exact, emitted), tuple(left_out))


def check_timed(
    bench: Bench,
    settings: GateSettings,
    prompts: Prompts,
    traces: Sequence[Trace],
    new_tokens: int,
    chosen: list[int],
) -> Judgement:
    """Judge what was timed: every repetition's counts, and the last one's tokens.

    Args:
        prompts: of the last trace.
    """
    counts = check_counts(traces, new_tokens, bench.plan.shape.vocab)
    counts = counts.model_copy(update={"name": "tokens_after"})
    if not counts.passed or not settings.exactness:
        return Judgement([counts])
    emitted, judged = _judged(bench, prompts, traces[-1], chosen)
    share = agreement(judged.exact, emitted)
    if not bench.exact_tokens:
        # Every chosen request has exactly `new_tokens` of them, or the counts had failed.
        first = check_related(
            judged.exact[::new_tokens], emitted[::new_tokens], name="related_after"
        )
        return Judgement([counts, first], share)
    gates = check_regret(
        judged.exact, judged.trusted, emitted, bench.dtype, name="regret_after", own=judged.own
    )
    return Judgement([counts, *gates], share)


def _judged(
    bench: Bench, prompts: Prompts, trace: Trace, chosen: list[int]
) -> tuple[list[int], reference.Judged]:
    """Emitted tokens of the chosen requests end to end, with the reference's rows for each."""
    emitted: list[int] = []
    found: list[reference.Judged] = []
    for request in chosen:
        tokens = trace.tokens(request)
        emitted += tokens
        found.append(bench.judge(prompts[request], tokens))
    return emitted, reference.Judged(
        exact=torch.cat([part.exact for part in found]),
        trusted=torch.cat([part.trusted for part in found]),
        own=Errors(max(part.own.max for part in found), max(part.own.rms for part in found)),
    )
