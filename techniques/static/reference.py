"""What static batching promises, as a check over what happened."""

from __future__ import annotations

from collections.abc import Sequence


def check(events: Sequence[tuple[int, str, int]]) -> None:
    """Events are (step, "admitted" or "finished", request id), in order of submission ids.

    Raises AssertionError where a request was admitted while an earlier batch still ran, or out of
    order, or never finished.
    """
    running: set[int] = set()
    admitted: list[int] = []
    admission_step = -1
    for step, kind, request in events:
        if kind == "admitted":
            assert not running or step == admission_step, f"{request} joined a running batch"
            admission_step = step
            running.add(request)
            admitted.append(request)
        else:
            running.remove(request)
    assert not running, f"never finished: {sorted(running)}"
    assert admitted == sorted(admitted), "requests were admitted out of order"
