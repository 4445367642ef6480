"""The mixer: convolution, selection, scan, gate; one update of the state where one row is fed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor

from harness.model.batch import RaggedBatch
from harness.model.building import Parts
from harness.model.convolution import convolved, windows
from harness.model.state_space.scan import chunks
from harness.model.state_space.sizes import of
from harness.shape import ModelShape, SequenceState


@dataclass(frozen=True)
class Chosen:
    """What T tokens choose: h = decay h + entry, y = h read + skip u."""

    u: Tensor  # [T, I]
    decay: Tensor  # exp(delta A), [T, I, N]
    entry: Tensor  # delta B u, [T, I, N]
    read: Tensor  # C, [T, N]

    def rows(self, rows: slice) -> Chosen:
        """Those of some tokens."""
        return Chosen(self.u[rows], self.decay[rows], self.entry[rows], self.read[rows])

    def read_out(self, states: Tensor) -> Tensor:
        """States [T, I, N] as the tokens read them, [T, I]."""
        return torch.einsum("tin,tn->ti", states, self.read)


class StateSpace:
    """One layer. Of a sequence it keeps the convolution's last inputs and the channels' states."""

    def __init__(self, parts: Parts, layer: int, group: int, owner: bool) -> None:
        assert owner, "planning refuses shared layers of a state space"
        self._group, self._sizes = group, of(parts.shape)
        self._in = parts.linear(f"{layer}.in", parts.weight(f"{layer}.in"))
        self._select = parts.linear(f"{layer}.select", parts.weight(f"{layer}.select"))
        self._step = parts.linear(f"{layer}.step", parts.weight(f"{layer}.step"))
        self._out = parts.linear(f"{layer}.out", parts.weight(f"{layer}.out"))
        self._conv = parts.vector(f"{layer}.conv")  # [I, k]
        self._conv_bias = parts.vector(f"{layer}.conv_bias")
        self._step_bias = parts.vector(f"{layer}.step_bias")
        self._skip = parts.vector(f"{layer}.skip")
        log = parts.vector(f"{layer}.decay_log")
        # As the state: in float32 where the model has 16 bits.
        self._decay = -torch.exp(log if log.dtype == torch.float64 else log.float())  # [I, N]
        names = ("step_norm", "write_norm", "read_norm") if self._sizes.normed else ()
        self._norms = [parts.norm(f"{layer}.{name}") for name in names]
        parts.only_torch("causal_conv1d", "selective_scan")

    @staticmethod
    def state(shape: ModelShape, layers: tuple[int, ...]) -> SequenceState:
        """The convolution's last inputs [I, k - 1], and the states [I, N], in float32 at least."""
        z = of(shape)
        tensors = (("conv", (z.inner, z.conv - 1)), ("scan", (z.inner, z.state)))
        return SequenceState(tensors, layers, wide=("scan",))

    @staticmethod
    def weights(shape: ModelShape, owner: bool) -> dict[str, tuple[int, ...]]:
        """The paper's names are A (decay), D (skip), delta (step), B (write) and C (read)."""
        assert owner
        z = of(shape)
        norms = {"step_norm": z.rank, "write_norm": z.state, "read_norm": z.state}
        return {
            "in": (2 * z.inner, shape.width),
            "conv": (z.inner, z.conv),
            "conv_bias": (z.inner,),
            "select": (z.selected, z.inner),
            "step": (z.inner, z.rank),
            "step_bias": (z.inner,),
            "decay_log": (z.inner, z.state),
            "skip": (z.inner,),
            "out": (shape.width, z.inner),
            **({name: (size,) for name, size in norms.items()} if z.normed else {}),
        }

    def __call__(self, x: Tensor, residual: Tensor, batch: RaggedBatch, store: Any) -> Tensor:
        """x [T, D] normed, residual [T, D] -> residual + mixed, [T, D]."""
        held = [store.recurrent.load(self._group, i) for i in range(batch.size)]
        u, gate = torch.split(self._in(x), self._sizes.inner, -1)  # [T, I]
        seen = windows(u, batch, [states["conv"] for states in held])  # [I, k-1+T] each
        chosen = self._choose(F.silu(convolved(seen, batch, self._conv, self._conv_bias)))
        if batch.one_row_each:
            before = torch.stack([states["scan"] for states in held])  # [B, I, N]
            after = chosen.decay * before + chosen.entry
            y = chosen.read_out(after)
            for i in range(batch.size):
                states = {"conv": seen[i][:, 1:], "scan": after[i]}
                store.recurrent.save(self._group, i, 0, states)
        else:
            y = torch.cat(
                [
                    self._scan(i, batch, store, held[i]["scan"], seen[i], chosen)
                    for i in range(batch.size)
                ]
            )
        y = (y + self._skip * chosen.u).to(x.dtype) * F.silu(gate)
        return self._out.add(residual, y)

    def _choose(self, u: Tensor) -> Chosen:
        """What the tokens choose, from the convolution's output [T, I]; as wide as the state."""
        z, wide = self._sizes, self._decay.dtype
        parts = torch.split(self._select(u), [z.rank, z.state, z.state], -1)
        if self._norms:
            parts = tuple(norm(part) for norm, part in zip(self._norms, parts, strict=True))
        step = F.softplus(self._step(parts[0]).to(wide) + self._step_bias.to(wide))  # delta
        u_wide = u.to(wide)
        return Chosen(
            u=u_wide,
            decay=torch.exp(step[:, :, None] * self._decay),
            entry=(step * u_wide)[:, :, None] * parts[1].to(wide)[:, None, :],
            read=parts[2].to(wide),
        )

    def _scan(
        self,
        i: int,
        batch: RaggedBatch,
        store: Any,
        start: Tensor,
        window: Tensor,
        chosen: Chosen,
    ) -> Tensor:
        """One sequence's rows, [T, I], with the states saved that a rewind may ask for."""
        mine, wanted = chosen.rows(batch.rows(i)), set(store.recurrent.wanted(i))
        out = []
        for first, states in chunks(mine.decay, mine.entry, start):
            held = range(first, first + len(states))
            out.append(mine.rows(slice(held.start, held.stop)).read_out(states))
            for row in wanted & set(held):
                conv = window[:, row + 1 : row + self._sizes.conv]
                saved = {"conv": conv.clone(), "scan": states[row - first].clone()}
                store.recurrent.save(self._group, i, row, saved)
        return torch.cat(out)
