"""What continuous batching promises, as a check over what happened."""

from __future__ import annotations

from collections.abc import Sequence


def check(events: Sequence[tuple[int, str, int]], *, in_order: bool = False) -> None:
    """Events are (step, "admitted" or "finished", request id), in order of submission ids.

    Args:
        in_order: requests must have entered first come, first served.

    Raises AssertionError where a request entered or left twice, left before it entered, or never
    left: iteration-level scheduling promises everybody an end, and nobody a place.
    """
    entered: dict[int, int] = {}
    left: set[int] = set()
    for step, kind, request in events:
        if kind == "admitted":
            assert request not in entered, f"{request} entered twice"
            entered[request] = step
        else:
            assert request in entered, f"{request} left before it entered"
            assert request not in left, f"{request} left twice"
            left.add(request)
    assert left == set(entered), f"never finished: {sorted(set(entered) - left)}"
    assert not in_order or list(entered) == sorted(entered), "a request was overtaken"
