"""The tensors behind block tables: a pool of blocks a stream, head-major, [P, K, block, H]."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from harness.kernels.copy_blocks.eager import copy_blocks
from harness.kernels.gather_blocks.eager import gather_blocks
from harness.shape import TokenState
from harness.techniques.paged.tables import Copies


class Pools:
    """One pool a stream of each group. Blocks and places are named by tensors on the device."""

    def __init__(
        self, groups: list[TokenState], count: int, block: int, dtype: torch.dtype, device: str
    ) -> None:
        self._block = block
        self.device = device
        # Kernels by name; whoever builds the engine puts those of its backend here.
        self.operations: dict[str, Callable[..., Tensor]] = {
            "copy_blocks": copy_blocks, "gather_blocks": gather_blocks
        }  # fmt: skip
        self.of = [
            tuple(
                torch.zeros(count, heads, block, numbers, dtype=dtype, device=device)
                for _, (heads, numbers) in group.streams
            )
            for group in groups
        ]

    def copy(self, groups: Iterable[int], copies: Copies) -> None:
        """Copy whole blocks of these groups."""
        sides = zip(*copies, strict=True)
        source, target = (torch.tensor(side, device=self.device) for side in sides)
        for group in groups:
            for pool in self.of[group]:
                self.operations["copy_blocks"](pool, pool, source, target)

    def write(self, group: int, where: tuple[Tensor, Tensor], streams: Iterable[Tensor]) -> None:
        """Put entries, each stream [T, K, H], at (block, place in it), [T] each."""
        for pool, rows in zip(self.of[group], streams, strict=True):
            pool.transpose(1, 2).index_put_(where, rows)

    def joined(self, group: int, blocks: Tensor, count: int) -> tuple[Tensor, ...]:
        """The first `count` entries of these blocks, [K, count, H] a stream."""
        return tuple(
            self.operations["gather_blocks"](pool, blocks)[:, :count] for pool in self.of[group]
        )

    def move(self, group: int, blocks: Tensor, source: Tensor, target: Tensor) -> None:
        """Move entries between places of a sequence that lies in these blocks."""
        for pool in self.of[group]:
            flat = pool.transpose(1, 2)  # [P, block, K, H]
            # Gathered first: source and target overlap.
            rows = flat[blocks[source // self._block], source % self._block]
            flat[blocks[target // self._block], target % self._block] = rows

    @property
    def bytes(self) -> int:
        """Of all pools."""
        return sum(pool.numel() * pool.element_size() for pools in self.of for pool in pools)


def padded(tables: Sequence[array[int]], width: int) -> Tensor:
    """[B, width] int32 of tables that are cut, or filled with zeros."""
    # Joined as bytes: a table of 256 sequences is made in microseconds, not milliseconds.
    rows = (blocks[:width].tobytes().ljust(4 * width, b"\0") for blocks in tables)
    joined = array("i", b"".join(rows))
    return torch.frombuffer(joined, dtype=torch.int32).view(len(tables), width)
