"""The causal convolution by channel of a ragged batch: what state spaces, and attention behind a
short convolution, keep of a sequence is the last inputs that it still sees."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own abbreviation
from torch import Tensor

from harness.model.batch import RaggedBatch


def windows(x: Tensor, batch: RaggedBatch, before: Sequence[Tensor]) -> list[Tensor]:
    """Each sequence's rows of x [T, I] behind its last inputs [I, k-1], as [I, k-1+T]."""
    return [torch.cat([past, x[batch.rows(i)].T], 1) for i, past in enumerate(before)]


def convolved(
    seen: Sequence[Tensor], batch: RaggedBatch, kernel: Tensor, bias: Tensor | None = None
) -> Tensor:
    """The convolution of such windows with a kernel [I, k] and a bias [I], [T, I]."""
    if batch.one_row_each:
        out = torch.einsum("bik,ik->bi", torch.stack(list(seen)), kernel)
        return out if bias is None else out + bias
    channels = len(kernel)
    return torch.cat([F.conv1d(w[None], kernel[:, None], bias, groups=channels)[0].T for w in seen])
