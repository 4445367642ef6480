"""Every address that a kernel touches in Triton's interpreter, held to the memory it was given.

A load outside every tensor whose number is thrown away changes no result, and on a GPU it ends the
process or reads what is not the kernel's to read. Lanes outside are counted, and not touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

Regions = Callable[[], Sequence[tuple[int, int]]]  # first byte of each, and the first after it


@contextmanager
def watched(regions: Regions) -> Iterator[list[str]]:
    """Within, what the interpreter reads or writes outside of all regions is told in the list.

    Where triton is not loaded nothing is watched.
    """
    told: list[str] = []
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None:
        yield told
        return
    builder = interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def checked_load(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        return load(self, ptrs, _inside("read", ptrs, mask, regions(), told), *rest)

    def checked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return store(self, ptrs, value, _inside("written", ptrs, mask, regions(), told), *rest)

    builder.create_masked_load, builder.create_masked_store = checked_load, checked_store
    try:
        yield told
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store


def _inside(
    how: str, ptrs: Any, mask: Any, regions: Sequence[tuple[int, int]], told: list[str]
) -> Any:
    """The mask without the lanes that lie outside of all regions."""
    wanted = np.broadcast_to(mask.data, ptrs.data.shape)
    addresses = ptrs.data[wanted]
    if not addresses.size:
        return mask
    size = ptrs.get_element_ty().primitive_bitwidth // 8
    low, high = int(addresses.min()), int(addresses.max()) + max(1, size)
    if any(first <= low and high <= end for first, end in regions):
        return mask
    starts, ends = np.array(sorted(regions), dtype=np.uint64).T
    place = np.searchsorted(starts, ptrs.data, side="right") - 1
    inside = (place >= 0) & (ptrs.data + np.uint64(size) <= ends[place])
    lost = int((wanted & ~inside).sum())
    if lost:
        told.append(f"{lost} numbers {how} outside of every tensor")
    return type(mask)(wanted & inside, mask.dtype)
