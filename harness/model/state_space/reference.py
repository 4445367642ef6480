"""Mamba by the paper (arXiv:2312.00752, 3.2 and Algorithm 2): the recurrence, a token at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from harness.model.reference import LinearFunction, MixerFunction, rms_norm
from harness.model.state_space.sizes import of
from harness.shape import ModelShape


def mixer(weights: dict[str, Tensor], shape: ModelShape, linear: LinearFunction) -> MixerFunction:
    """The layers' mixer, x [T, D] -> [T, D]."""
    z = of(shape)

    def normed(name: str, x: Tensor) -> Tensor:
        return rms_norm(x, weights[name], shape.eps) if z.normed else x

    def selective(layer: int, x: Tensor) -> Tensor:
        T = len(x)

        def vector(name: str) -> Tensor:
            return weights[f"{layer}.{name}"].to(x.dtype)

        u, gate = torch.split(linear(f"{layer}.in", x), z.inner, -1)
        padded = torch.cat([u.new_zeros(z.conv - 1, z.inner), u])
        mixed = vector("conv_bias").repeat(T, 1)
        for back in range(z.conv):
            mixed = mixed + padded[back : back + T] * vector("conv")[:, back]
        u = mixed * torch.sigmoid(mixed)

        chosen = linear(f"{layer}.select", u)
        step, write, read = torch.split(chosen, [z.rank, z.state, z.state], -1)
        step = linear(f"{layer}.step", normed(f"{layer}.step_norm", step)) + vector("step_bias")
        step = torch.log1p(torch.exp(-step.abs())) + step.clamp(min=0)  # softplus
        write = normed(f"{layer}.write_norm", write)
        read = normed(f"{layer}.read_norm", read)
        decay = -torch.exp(vector("decay_log"))  # A, [I, N]

        h = x.new_zeros(z.inner, z.state)
        rows = []
        for t in range(T):
            delta = step[t][:, None]  # [I, 1]
            h = torch.exp(delta * decay) * h + delta * write[t] * u[t][:, None]
            rows.append(h @ read[t] + vector("skip") * u[t])
        y = torch.stack(rows) * gate * torch.sigmoid(gate)
        return linear(f"{layer}.out", y)

    return selective
