"""The gates of a serve run: every request's tokens counted, some requests' tokens judged."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from harness.gates.judgement import Bench, Judgement
from harness.gates.observe import TOKEN_BUDGET, LogitsLog
from harness.gates.regret import agreement, check_regret
from harness.gates.tolerance import Errors, check_numeric
from harness.gates.verdict import failed, verdict
from harness.measure.serve import Due, Served
from harness.run import GateResult
from harness.suite.case import GateSettings

# The longest request that is judged beyond the budget: some faults begin at a block table's or a
# window's edge, and a trace's short requests never come there.
LONGEST = 2048


def choose_due(due: Sequence[Due], seed: str, budget: int = TOKEN_BUDGET) -> list[Due]:
    """Which requests are judged: in an order by the seed, as many as the references may run over.

    One that is too long by itself is passed over, but for the longest of at most LONGEST tokens.
    """
    order = random.Random(seed).sample(due, len(due))
    within = [each for each in due if _tokens(each) <= LONGEST]
    chosen = [max(within, key=_tokens) if within else min(due, key=_tokens)]
    for each in order:
        if each is not chosen[0] and _tokens(each) <= budget:
            chosen.append(each)
            budget -= _tokens(each)
    return chosen


def _tokens(due: Due) -> int:
    return len(due.request.prompt) + due.request.max_new_tokens


def check_served_counts(served: Served, vocab: int, name: str) -> GateResult:
    """Hold each answer to its length, or to an end of sequence before it, inside the vocabulary."""
    worst, detail, foreign, answers = 0, "", None, 0
    for each in served.due:
        request = each.request
        for sample in range(request.samples) if request.id not in served.refused else ():
            answers += 1
            tokens = served.tokens(request.id, sample)
            ended = bool(tokens) and request.eos is not None and tokens[-1] == request.eos
            off = abs(len(tokens) - request.max_new_tokens)
            if ended and len(tokens) <= request.max_new_tokens:
                off = 0
            if off > worst:
                worst = off
                detail = (
                    f"request {request.id} emitted {len(tokens)} tokens of {request.max_new_tokens}"
                )
            if tokens and not 0 <= min(tokens) <= max(tokens) < vocab:
                foreign = f"request {request.id} emitted a token outside the vocabulary"
    return verdict(
        name,
        worst,
        0,
        "tokens",
        foreign or detail or f"{answers} answers as long as asked, {len(served.refused)} refused",
        sound=foreign is None,
    )


def check_served(
    bench: Bench,
    settings: GateSettings,
    served: Served,
    chosen: Sequence[Due],
    suffix: str,
    log: LogitsLog | None = None,
) -> Judgement:
    """Counts of all, and of the chosen ones their tokens, and their logits where they were watched.

    Args:
        log: the logits of the chosen requests; None: they were not watched.
    """
    counts = check_served_counts(served, bench.plan.shape.vocab, f"tokens{suffix}")
    answered = [due for due in chosen if due.request.id not in served.refused]
    if not counts.passed or not (settings.numeric or settings.exactness) or not answered:
        return Judgement([counts])
    judged = [bench.judge(d.request.prompt, served.tokens(d.request.id)) for d in answered]
    exact = torch.cat([part.exact for part in judged])
    trusted = torch.cat([part.trusted for part in judged])
    own = Errors(max(part.own.max for part in judged), max(part.own.rms for part in judged))
    emitted = [token for d in answered for token in served.tokens(d.request.id)]
    gates, left_out = [counts], []
    if log is not None and settings.numeric:
        if bench.exact_logits:
            gates += _numeric(bench, served, answered, log, exact, trusted, own, suffix)
        else:
            left_out.append("numeric: the cache is lossy")
    if not settings.exactness:
        return Judgement(gates, None, tuple(left_out))
    if any(d.request.sampling.temperature > 0 for d in answered):
        # Nor do sampled tokens agree with the most likely ones, or mean to.
        return Judgement(gates, None, (*left_out, "regret: tokens were sampled"))
    if not bench.exact_tokens:
        left_out.append("regret: the stack is lossy")
    else:
        gates += check_regret(exact, trusted, emitted, bench.dtype, name=f"regret{suffix}", own=own)
    return Judgement(gates, agreement(exact, emitted), tuple(left_out))


def _numeric(
    bench: Bench,
    served: Served,
    answered: Sequence[Due],
    log: LogitsLog,
    exact: torch.Tensor,
    trusted: torch.Tensor,
    own: Errors,
    suffix: str,
) -> list[GateResult]:
    rows = [
        log.of(d.request.id, len(d.request.prompt), len(served.tokens(d.request.id)))
        for d in answered
    ]
    if any(found is None for found in rows):
        detail = "the engine did not show the logits of every emitted token"
        return [failed(f"numeric{suffix}_max", "logit", detail)]
    output = torch.cat([found for found in rows if found is not None])
    return check_numeric(output, trusted, exact, bench.dtype, name=f"numeric{suffix}", own=own)
