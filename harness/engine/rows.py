"""What each run of a step feeds to the forward, and which of its rows decide tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.engine.decoder import Proposal
from harness.engine.request import Sequence
from harness.engine.scheduler import Run
from harness.model.batch import Item, RaggedBatch


@dataclass
class Judged:
    """One sequence's share of a forward that decides tokens."""

    sequence: Sequence
    held: int  # certain tokens held after the forward
    logits: Tensor  # [1 + proposals, V]
    features: Tensor  # [1 + proposals, D]


def item(run: Run, length: int, proposals: dict[int, Proposal]) -> Item:
    """What a run feeds: its certain tokens from the cached length on, then its proposal."""
    sequence, certain = run.sequence, run.certain
    tokens = sequence.tokens[length : length + certain]
    proposal = proposals.get(sequence.id)
    if proposal is None or not proposal.tokens:
        return Item(sequence.id, tokens)
    item = Item(sequence.id, tokens + proposal.tokens, certain=certain)
    if proposal.depths is not None:
        item.positions = [*range(length, length + certain)]
        item.positions += [length + certain + depth for depth in proposal.depths]
    if proposal.tree is not None:
        size = certain + len(proposal.tokens)
        mask = torch.ones(size, size, dtype=torch.bool).tril()
        mask[certain:, certain:] = proposal.tree
        item.qq_mask = mask
    return item


def deciding(
    runs: list[Run],
    ready: list[Run],
    hidden: Tensor,
    batch: RaggedBatch,
    head: Callable[[Tensor], Tensor],
) -> list[Judged]:
    """The head on the rows that decide something: each ready run's last certain one and proposals.

    Args:
        runs: of the whole step, in the order of the batch.
        ready: those of them that decide.
        hidden: features of the forward, [T, D].
    """
    names = {run.sequence.id for run in ready}
    places = [i for i, run in enumerate(runs) if run.sequence.id in names]
    spans = [
        (batch.cu_seqlens[i] + max(runs[i].certain - 1, 0), batch.cu_seqlens[i + 1]) for i in places
    ]
    rows = [row for start, end in spans for row in range(start, end)]
    features = hidden if len(rows) == len(hidden) else hidden[rows]
    sizes = [end - start for start, end in spans]
    parts = zip(
        places, torch.split(head(features), sizes), torch.split(features, sizes), strict=True
    )
    return [
        Judged(runs[i].sequence, batch.context_lens[i] + runs[i].certain, logits, own)
        for i, logits, own in parts
    ]
