"""What fits together: the table of pairs that cannot work, and shapes against trained weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.errors import printable
from harness.plan import EnginePlan, Trait
from harness.shape import STANDARD_MIXER, ModelShape

if TYPE_CHECKING:
    from harness.model.source import ModelSource


@dataclass(frozen=True)
class Rule:
    """A pair of parts that cannot work: all of `has` are there and none of `lacks` is."""

    has: frozenset[Trait]
    lacks: frozenset[Trait]
    sentence: str


def _rule(has: set[Trait], sentence: str, lacks: set[Trait] | None = None) -> Rule:
    return Rule(frozenset(has), frozenset(lacks or ()), sentence)


# Most of these pairs were run in a prototype: they raised, never ended, or gave wrong tokens
# silently. The bidirectional ones follow from what a key depends on.
# Prefix sharing with recurrent or windowed layers is no row: the cache switches sharing off.
RULES: tuple[Rule, ...] = (
    _rule(
        {Trait.TREE, Trait.RECURRENT},
        "a draft tree needs one state a branch and recurrent layers keep one a sequence; "
        "a chain of drafts (speculative) fits",
    ),
    _rule(
        {Trait.CHUNKS},
        "a prompt fed in pieces needs the earlier pieces in a cache; contiguous or paged fits",
        lacks={Trait.INCREMENTAL},
    ),
    _rule(
        {Trait.CHUNKS, Trait.BLOCKWISE},
        "the scheduler cuts prompts inside the decoder's blocks, whose places see each other; "
        "a scheduler that cuts at whole blocks fits, and so does static",
        lacks={Trait.ALIGNS},
    ),
    _rule(
        {Trait.BLOCKWISE, Trait.RECURRENT},
        "recurrent layers read from left to right and the decoder's blocks are read both ways; "
        "an attention architecture fits",
    ),
    _rule(
        {Trait.BIDIRECTIONAL, Trait.RECURRENT},
        "recurrent layers read from left to right and the decoder needs both directions; "
        "an attention architecture fits",
    ),
    _rule(
        {Trait.BIDIRECTIONAL, Trait.INCREMENTAL},
        "keys of the prompt depend on later tokens, so that nothing can be kept; recompute fits",
    ),
    _rule(
        {Trait.PAGED, Trait.RECURRENT},
        "the model has no state a token to put into pages; leave the cache at contiguous",
        lacks={Trait.TOKEN_STATE},
    ),
    _rule(
        {Trait.RECURRENT},
        "the model has no keys and values to recompute, its state is always kept; leave the cache "
        "at contiguous",
        lacks={Trait.TOKEN_STATE, Trait.INCREMENTAL},
    ),
)

# What a checkpoint's tensors depend on; the rest (eps, rope, window) is read at run time.
_WEIGHT_FIELDS = (
    "vocab", "width", "layers", "heads", "kv_heads", "head_dim", "ff", "tied", "mixers",
    "kv_share", "extra",
)  # fmt: skip


def broken_rule(plan: EnginePlan) -> str | None:
    """The sentence of the first rule that the plan's traits break."""
    for rule in RULES:
        if rule.has <= plan.traits and not rule.lacks & plan.traits:
            return rule.sentence
    return None


def uncapturable(plan: EnginePlan) -> str | None:
    """Why decode steps of this plan cannot be captured in a CUDA graph, if they cannot.

    A graph repeats launches: whatever a step asks the host for, or decides in Python from what it
    holds, would stay as it was when it was captured.
    """
    shape, traits = plan.shape, plan.traits
    if Trait.INCREMENTAL not in traits:
        return (
            "without a cache every step feeds more tokens than the last; contiguous or paged fits"
        )
    others = [mixer for mixer in shape.mixers if mixer != STANDARD_MIXER]
    if others:
        kind = others[0].rpartition(":")[2]
        return f"layers of {kind} choose their work in Python at every step; softmax attention fits"
    several = {Trait.REJECTS, Trait.TREE, Trait.BLOCKWISE, Trait.BIDIRECTIONAL} & traits
    if several:
        return "only steps of one token a sequence are captured; autoregressive decoding fits"
    if any(shape.window(layer) for layer in range(shape.layers)) and Trait.PAGED not in traits:
        return "entries of a window move about in a contiguous cache; paged fits"
    if plan.engine != EnginePlan.engine:
        return "its technique brings an engine of its own; the plain one fits"
    if plan.backend != "triton":
        return "on backend torch a step asks the host for its lengths; backend triton fits"
    return None


def misfit(plan: EnginePlan, source: ModelSource) -> str | None:
    """Why the finished shape cannot be run with this model, if it cannot."""
    shape, model = plan.shape, f"'{source.name}'"
    if shape.kv_heads <= 0 or shape.heads % shape.kv_heads:
        return (
            f"{shape.heads} query heads of {model} cannot share {shape.kv_heads} key/value heads; "
            f"a divisor of {shape.heads} fits"
        )
    if source.kind != "random" and shape is not source.shape:
        for field in _WEIGHT_FIELDS:
            wanted, trained = getattr(shape, field), getattr(source.shape, field)
            if wanted != trained:
                return (
                    f"it makes {field} {_shown(wanted)}, but the weights of {model} were trained "
                    f"with {_shown(trained)}; a stack that leaves it at {_shown(trained)} fits, "
                    "and so does a model with random weights, such as tiny"
                )
    if reason := _alien(shape):
        return reason
    if plan.limits.max_tokens > shape.max_len:
        return (
            f"prompt and new tokens need {plan.limits.max_tokens} places and {model} has "
            f"{shape.max_len}; fewer prompt_tokens or new_tokens fit"
        )
    return None


def _alien(shape: ModelShape) -> str | None:
    """Why layers cannot be built: too few are described, or one is asked for what only standard
    attention does."""
    for what in ("mixers", "windows"):
        named = len(getattr(shape, what))
        if named not in (0, shape.layers):
            return f"it names {what} for {named} of {shape.layers} layers"
    for span in shape.spans():
        mixer = shape.mixers[span.start] if shape.mixers else STANDARD_MIXER
        if mixer != STANDARD_MIXER and (len(span) > 1 or shape.window(span.start)):
            asked = "share keys and values" if len(span) > 1 else "look through a window"
            return f"layers of {mixer.rpartition(':')[2]} cannot {asked}; softmax attention fits"
    return None


def _shown(value: object) -> str:
    return printable(str(value), 60) if value not in ((), "") else "empty"
