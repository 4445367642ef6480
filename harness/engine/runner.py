"""A model with its store: the target is one, and so is a draft."""

from __future__ import annotations

from torch import Tensor

from harness.engine.graphs import DecodeGraphs
from harness.engine.store import Store
from harness.model.batch import Item, RaggedBatch, collect
from harness.model.decoder_lm import DecoderLM


class Runner:
    """Feeds items through a model, with each sequence's state before and after in the store."""

    def __init__(
        self, model: DecoderLM, store: Store, device: str, graphs: DecodeGraphs | None = None
    ) -> None:
        """`graphs` take the plain decode steps where there are any."""
        self.graphs = graphs
        self.model = model
        self.store = store
        self.device = device

    def forward(self, items: list[Item], causal_block: int = 1) -> tuple[Tensor, RaggedBatch]:
        """Features after the last norm, [T, D], and the batch they belong to."""
        contexts = [self.store.length(item.seq) for item in items]
        batch = collect(items, contexts, causal_block, self.device)
        self.store.begin(batch)
        if self.graphs is not None and self.graphs.takes(batch):
            hidden = self.graphs.run(batch)
        else:
            hidden = self.model(batch, self.store)
        self.store.advance(batch)
        return hidden, batch
