"""Portions of a ragged batch: who goes through which kernel, and what it is told of them."""

from __future__ import annotations

import pytest
import torch

from harness.kernels.decode_attention import MAX_ROWS
from harness.model.batch import Item, collect
from harness.model.portions import split

INF = float("inf")


def item(seq: int, count: int, **others: object) -> Item:
    return Item(seq, list(range(count)), **others)  # type: ignore[arg-type]


def test_a_plain_decode_step_is_one_portion_of_everything() -> None:
    batch = collect([item(0, 1), item(1, 1)], [7, 0])
    (portion,) = split(batch, None, None)
    assert portion.decode
    assert portion.lengths is not None
    assert (portion.lengths.rows, portion.lengths.lens) == ([1, 1], [8, 1])
    for left_out in ("sequences", "rows", "cu_seqlens", "mask", "positions"):
        assert getattr(portion, left_out) is None, left_out


@pytest.mark.parametrize(("count", "decode"), [(MAX_ROWS, True), (MAX_ROWS + 1, False)])
def test_the_most_rows_of_a_draft_still_decode(count: int, decode: bool) -> None:
    (portion,) = split(collect([item(0, count)], [3]), None, None)
    assert portion.decode is decode
    assert portion.cu_seqlens is not None
    assert portion.cu_seqlens.tolist() == [0, count]
    assert portion.cu_seqlens.dtype == torch.int32


def test_a_mixed_batch_is_cut_in_two_and_every_row_is_in_one_of_them() -> None:
    counts, held = [1, 30, 3, 12], [9, 0, 5, 40]
    batch = collect([item(i, count) for i, count in enumerate(counts)], held)
    few, many = split(batch, None, None)
    assert (few.decode, many.decode) == (True, False)
    for portion, chosen in ((few, [0, 2]), (many, [1, 3])):
        assert portion.lengths is not None
        assert portion.sequences is not None
        assert portion.rows is not None
        assert portion.cu_seqlens is not None
        assert portion.sequences.tolist() == chosen
        assert portion.lengths.rows == [counts[i] for i in chosen]
        assert portion.lengths.lens == [held[i] + counts[i] for i in chosen]
        assert portion.cu_seqlens.diff().tolist() == [counts[i] for i in chosen]
        places = [row for i in chosen for row in range(*batch.rows(i).indices(46))]
        assert portion.rows.tolist() == places
    assert few.rows is not None
    assert many.rows is not None
    assert sorted([*few.rows.tolist(), *many.rows.tolist()]) == list(range(46))


def test_lengths_are_counted_from_what_is_still_held() -> None:
    batch = collect([item(0, 1), item(1, 20)], [50, 10])
    few, many = split(batch, 16, (35, 0))
    assert few.lengths is not None
    assert many.lengths is not None
    assert (few.lengths.lens, many.lengths.lens) == ([51 - 35], [30])
    assert few.mask is None
    assert few.positions is None


def test_a_portion_takes_its_sequences_of_a_table_and_remembers_them() -> None:
    batch = collect([item(0, 1), item(1, 20), item(2, 1)], [5, 0, 8])
    few, many = split(batch, None, None)
    table, lens = torch.arange(12).view(3, 4), torch.tensor([6, 20, 9])
    own_table, own_lens = few.of(table, lens)
    assert (own_table[:, 0].tolist(), own_lens.tolist()) == ([0, 8], [6, 9])
    assert many.of(table, lens)[0].tolist() == [[4, 5, 6, 7]]
    assert few.of(table, lens)[0] is own_table
    # Another group's table, of the same size.
    assert few.of(table + 100, lens)[0][:, 0].tolist() == [100, 108]
    (whole,) = split(collect([item(0, 1)], [5]), None, None)
    assert whole.of(table, lens)[0] is table


TREE = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)


def test_a_tree_gets_a_mask_among_its_own_rows_alone() -> None:
    draft = item(0, 3, positions=[6, 7, 7], qq_mask=TREE)
    (portion,) = split(collect([draft, item(1, 1)], [6, 4]), None, None)
    assert portion.mask is not None
    assert portion.mask.tolist() == [
        [0, -INF, -INF],
        [0, 0, -INF],
        [0, -INF, 0],
        [0, -INF, -INF],
    ]
    assert portion.positions is None, "no window asks for them"


def test_under_a_window_a_trees_positions_count_from_what_is_held() -> None:
    draft = item(0, 3, positions=[20, 21, 21], qq_mask=TREE)
    (portion,) = split(collect([draft, item(1, 1)], [20, 4]), 8, (12, 0))
    assert portion.positions is not None
    assert portion.positions.tolist() == [8, 9, 9, 4]
    assert portion.positions.dtype == torch.int32


def test_a_trees_window_hides_rows_by_position() -> None:
    """Row 2 is a child of row 0 at the next position: a window of 1 leaves it itself alone."""
    draft = item(0, 3, positions=[6, 7, 7], qq_mask=TREE)
    (portion,) = split(collect([draft], [6]), 1, None)
    assert portion.mask is not None
    assert portion.mask.tolist() == [[0, -INF, -INF], [-INF, 0, -INF], [-INF, -INF, 0]]


def test_blocks_that_what_is_held_begins_within_are_told_by_a_mask() -> None:
    """Kernels count blocks from the first place held, and would cut wrongly from elsewhere."""
    batch = collect([item(0, 4)], [6], causal_block=4)
    (aligned,) = split(batch, None, (4,))
    assert aligned.mask is None
    assert aligned.causal_block == 4
    (within,) = split(batch, None, (3,))
    assert within.mask is not None
    # Places 6 and 7 end a block, 8 and 9 begin the next.
    assert (within.mask == 0).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1] * 4, [1] * 4]
