"""Decode attention on a CPU takes sequences together as suits it: values are the reference's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from harness.kernels.decode_attention import eager, reference
from harness.kernels.decode_attention.grouping import apart, near
from harness.kernels.prefill_attention.lengths import Lengths

K, GROUP, H, BLOCK = 2, 3, 8, 16
LENS = (300, 5, 0, 41, 290, 1, 130, 17)


def _paged(lens: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Pools whose pages lie in any order, and a table."""
    counts = [-(-length // BLOCK) for length in lens]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(1)).tolist()
    table = torch.zeros(len(lens), max(counts), dtype=torch.int32)
    for b, count in enumerate(counts):
        table[b, :count] = torch.tensor([order.pop() for _ in range(count)], dtype=torch.int32)
    return _pool(sum(counts), BLOCK), _pool(sum(counts), BLOCK), table


def _pool(pages: int, block: int) -> Tensor:
    return torch.randn(pages, K, block, H, generator=torch.Generator().manual_seed(pages + block))


def _agree(lens: tuple[int, ...], k: Tensor, v: Tensor, table: Tensor, window: int) -> Tensor:
    q = torch.randn(len(lens), K * GROUP, H, generator=torch.Generator().manual_seed(2))
    held = torch.tensor(lens, dtype=torch.int32)
    found = eager.decode_attention(q, k, v, table, held, H**-0.5, window=window)
    wanted = reference.decode_attention(q, k, v, table, held, H**-0.5, window=window)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    return found


@pytest.mark.parametrize("window", [0, 20])
def test_short_ones_are_padded_and_long_ones_are_not(window: int) -> None:
    assert apart(Lengths([1] * len(LENS), LENS))
    _agree(LENS, *_paged(LENS), window)


@pytest.mark.parametrize("window", [0, 20])
@pytest.mark.parametrize("slots", [(2, 0, 1, 3), (6, 1, 4, 2), (3, 4, 5, 6)])
def test_slots_are_read_where_they_lie(slots: tuple[int, ...], window: int) -> None:
    """In any order, and with slots between them that others own."""
    lens = (200, 33, 170, 128)
    assert near(slots, Lengths([1] * 4, lens))
    k, v = _pool(8, 256), _pool(8, 256)
    for other in set(range(8)) - set(slots):
        k[other] = v[other] = torch.nan
    found = _agree(lens, k, v, torch.tensor(slots, dtype=torch.int32)[:, None], window)
    assert found.isfinite().all()


def test_far_slots_are_read_by_themselves() -> None:
    slots, lens = (0, 63), (200, 180)
    assert not near(slots, Lengths([1, 1], lens))
    _agree(lens, _pool(64, 256), _pool(64, 256), torch.tensor(slots, dtype=torch.int32)[:, None], 0)


def test_a_slot_that_two_sequences_read() -> None:
    slots, lens = (1, 1, 2), (20, 30, 25)
    assert not near(slots, Lengths([1] * 3, lens))
    _agree(lens, _pool(4, 64), _pool(4, 64), torch.tensor(slots, dtype=torch.int32)[:, None], 0)
