"""Capture and replay: work recorded once, then made again without the host launching each part.

What was captured reads and writes the memory that it was captured on, so that whoever replays puts
new inputs there first and takes the outputs from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Captured(NamedTuple):
    """Recorded work."""

    replay: Callable[[], None]
    output: Any  # what the work returned: tensors that every replay writes anew


# Makes work that can be replayed; RuntimeError for what cannot be captured.
Capture = Callable[[Callable[[], Any]], Captured]


def in_graph(work: Callable[[], Any]) -> Captured:
    """Capture work in a CUDA graph. It must have run before, or compiling would be captured too.

    RuntimeError for work that waits for the device. It is found by running the work once more: a
    capture that fails half-way leaves stream and allocator as nobody can tell.
    """
    import torch

    waiting = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    finally:
        torch.cuda.set_sync_debug_mode(waiting)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = work()
    return Captured(graph.replay, output)
