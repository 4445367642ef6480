"""State of fixed size a sequence (a recurrence), with the past states that a rewind needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.shape import SequenceState

States = dict[str, Tensor]


class RecurrentStore:
    """States by sequence and length. A state is never written in place: a fork shares it.

    After a forward with tentative rows, the state after each of them is kept, so that a rewind to
    any accepted length is exact.
    """

    def __init__(self, groups: list[SequenceState], dtype: torch.dtype, device: str) -> None:
        self._groups = groups
        self._dtype = dtype
        self._device = device
        self._saved: dict[int, dict[int, list[States]]] = {}
        self._length: dict[int, int] = {}
        self._batch: RaggedBatch | None = None
        self._fresh: list[dict[int, list[States]]] = []

    def length(self, seq: int) -> int:
        """Tokens folded into the state."""
        return self._length.get(seq, 0)

    def begin(self, batch: RaggedBatch) -> None:
        """A forward starts."""
        self._batch = batch
        self._fresh = [{} for _ in batch.seqs]

    def load(self, group: int, i: int) -> States:
        """The state of sequence i before this forward's rows; zeros at the start."""
        assert self._batch is not None
        # Not self.length: under recompute the context is 0 at every step.
        context = self._batch.context_lens[i]
        if context == 0:
            declared = self._groups[group]
            wide = torch.promote_types(self._dtype, torch.float32)
            return {
                name: torch.zeros(
                    shape,
                    dtype=wide if name in declared.wide else self._dtype,
                    device=self._device,
                )
                for name, shape in declared.tensors
            }
        return self._saved[self._batch.seqs[i]][context][group]

    def wanted(self, i: int) -> list[int]:
        """Rows of sequence i after which the state must be saved."""
        assert self._batch is not None
        rows, certain = self._batch.query_len(i), self._batch.certain[i]
        if certain >= rows:
            return [rows - 1]
        return list(range(max(certain - 1, 0), rows))

    def save(self, group: int, i: int, row: int, states: States) -> None:
        """Keep the state after that row of sequence i."""
        assert self._batch is not None
        length = self._batch.context_lens[i] + row + 1
        self._fresh[i].setdefault(length, [{} for _ in self._groups])[group] = states

    def advance(self, batch: RaggedBatch) -> None:
        """The batch's rows are now folded in, tentatively."""
        for i, seq in enumerate(batch.seqs):
            self._saved.setdefault(seq, {}).update(self._fresh[i])
            self._length[seq] = batch.lens[i]

    def rewind(self, seq: int, length: int) -> int:
        """Back to the longest saved state at or below `length`; 0 when there is none."""
        saved = self._saved.get(seq, {})
        target = max((kept for kept in saved if kept <= length), default=0)
        self._length[seq] = target
        for later in [kept for kept in saved if kept > target]:
            del saved[later]
        return target

    def settle(self, seq: int) -> None:
        """Only the current state is needed from now on."""
        saved = self._saved.get(seq, {})
        for past in [kept for kept in saved if kept != self._length[seq]]:
            del saved[past]

    def fork(self, source: int, target: int) -> bool:
        """Share the source's states."""
        self._saved[target] = dict(self._saved.get(source, {}))
        self._length[target] = self.length(source)
        return True

    def free(self, seq: int) -> None:
        """Forget the sequence."""
        self._saved.pop(seq, None)
        self._length.pop(seq, None)

    def export(self, seq: int) -> dict[str, Any]:
        """The current state."""
        length = self.length(seq)
        return {"length": length, "states": self._saved.get(seq, {}).get(length, [])}

    def import_(self, seq: int, blob: dict[str, Any]) -> bool:
        """Take over an exported state."""
        self._length[seq] = blob["length"]
        self._saved[seq] = {blob["length"]: blob["states"]} if blob["states"] else {}
        return True

    def reset(self) -> None:
        """Forget everything."""
        self._saved.clear()
        self._length.clear()

    def held_bytes(self) -> int:
        """Bytes of every saved state, shared ones counted once."""
        distinct = {
            id(tensor): tensor.numel() * tensor.element_size()
            for by_length in self._saved.values()
            for states in by_length.values()
            for group in states
            for tensor in group.values()
        }
        return sum(distinct.values())

    def reserved_bytes(self) -> int:
        """The same as held: states are allocated as they are saved."""
        return self.held_bytes()
