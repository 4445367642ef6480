"""The exactness gate: how much worse than the best token each emitted token is, to the reference.

One teacher-forced run of the reference over prompt and emitted tokens gives `regret_t = max(logits
_t) - logits_t[emitted_t]`. Comparing free-running texts instead would call a tie a fault and stop
looking after the first difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from harness.gates.tolerance import REGRET_FACTOR, UNRELATED_SHARE, Errors, errors, floor
from harness.gates.verdict import failed, verdict
from harness.run import GateResult


def regrets(logits: Tensor, emitted: Sequence[int]) -> Tensor:
    """Regret of each emitted token: logits [n, V] and n tokens give [n]. Needs tokens below V."""
    chosen = torch.tensor(list(emitted), device=logits.device)[:, None]
    return logits.max(-1).values - logits.gather(-1, chosen)[:, 0]


def agreement(logits: Tensor, emitted: Sequence[int]) -> float:
    """Share of emitted tokens equal to the reference's own greedy choice."""
    chosen = torch.tensor(list(emitted), device=logits.device)
    return (logits.argmax(-1) == chosen).double().mean().item()


def check_regret(
    exact: Tensor,
    trusted: Tensor,
    emitted: Sequence[int],
    dtype: torch.dtype,
    *,
    name: str = "regret",
    own: Errors | None = None,
) -> list[GateResult]:
    """Hold emitted tokens to the reference's choice: `<name>` and `<name>_controls`.

    The control is the worst token at every place: were it to pass, the logits would be too flat to
    tell any token from another.

    Args:
        exact: the reference's logits in float64 at the rows that decide the tokens, [n, V].
        trusted: the same in the timed dtype; their difference sets the bound.
        emitted: the n tokens, of one or more sequences end to end.
        dtype: the timed dtype.
        own: the reference's errors over more rows than are judged; None: those of `trusted`.
    """
    names = (name, f"{name}_controls")
    if len(emitted) != len(exact) or not emitted:
        detail = f"{len(emitted)} tokens were emitted, {len(exact)} were to be judged"
        return [failed(each, "logit", detail) for each in names]
    outside = [t for t in emitted if not 0 <= t < exact.shape[-1]]
    if outside:
        detail = f"token {outside[0]} is outside the vocabulary of {exact.shape[-1]}"
        return [failed(each, "logit", detail) for each in names]
    if not bool(torch.isfinite(exact).all() & torch.isfinite(trusted).all()):
        return [failed(each, "logit", "the reference is not finite") for each in names]
    apart = (own or errors(trusted, exact)).max
    bound = REGRET_FACTOR * apart + floor(dtype) * exact.abs().max().item()
    seen = regrets(exact, emitted)
    worst = int(seen.argmax())
    share = agreement(exact, emitted)
    detail = f"{len(emitted)} tokens, {share:.2%} the reference's own; worst at place {worst}"
    control = regrets(exact, exact.argmin(-1).tolist()).max().item()
    return [
        verdict(name, seen.max().item(), bound, "logit", detail),
        verdict(
            names[1],
            float(control <= bound),
            0,
            "controls passed",
            f"the worst tokens have a regret of {control:.4g}",
        ),
    ]


def check_related(exact: Tensor, first: Sequence[int], *, name: str) -> GateResult:
    """Hold a lossy stack's first tokens to having anything to do with their prompts.

    Such a stack may choose other tokens than the reference. An answer remembered from another
    prompt shows in its first token, and only there: what follows it is fluent text again.

    Args:
        exact: the reference's logits in float64 behind each prompt, [n, V].
        first: the first token emitted for each of the n prompts.
    """
    if len(first) != len(exact) or not first:
        return failed(name, "ratio", f"{len(first)} tokens were emitted, {len(exact)} expected")
    drawn = (exact.max(-1).values - exact.mean(-1)).mean().item()
    seen = regrets(exact, first).mean().item()
    detail = f"mean regret {seen:.4g} logits, {drawn:.4g} of a random token"
    return verdict(name, seen / drawn if drawn else torch.nan, UNRELATED_SHARE, "ratio", detail)
