"""Lecture section 4: what running requests feel when a long prompt arrives, by who goes first.

    python -m tests.acceptance.serving_long_prompt [--lock FILE]      # a minute

Eight requests decode on the small model; while they do, three prompts of 1,024 tokens come, so far
apart that one is answered before the next (`at once` counts how many there are at most). When they
come is a share of what the eight take alone, measured first, so that the load is the same on any
machine. Times are CPU time of this process. With a lock each run waits for its turn.
"""

from __future__ import annotations

import argparse
import random
from itertools import pairwise
from statistics import median

from harness.engine.request import Request
from harness.measure.serve import Due
from harness.suite.points import ServePoint
from tests.acceptance.serving_bench import Seen, run

LONG, RUNNING, NEW, LONG_NEW = 1024, 8, 640, 8
COME = (0.15, 0.4, 0.65)  # of the time that the eight take alone
STACKS = {
    "prefill first": "gqa+paged+continuous(first=prefill)",
    "decode first, whole prompts": "gqa+paged+continuous",
    "decode first, prompts within 512": "gqa+paged+continuous(budget=512)",
    "chunked, 256 a step": "gqa+paged+continuous(chunk=true,budget=256)",
    "chunked, 64 a step": "gqa+paged+continuous(chunk=true,budget=64)",
}


def workload(alone_ns: float) -> list[Due]:
    """Who comes when: the long ones one after the other, while the others decode."""
    draw = random.Random(0)

    def prompt(tokens: int) -> tuple[int, ...]:
        return tuple(draw.randrange(1024) for _ in range(tokens))

    running = [Due(0, Request(i, prompt(32), NEW)) for i in range(RUNNING)]
    return running + [
        Due(round(share * alone_ns), Request(RUNNING + i, prompt(LONG), LONG_NEW))
        for i, share in enumerate(COME)
    ]


def at_once(seen: Seen) -> int:
    """The most long requests that were due and not answered at any time."""
    spans = [
        (due.at_ns, seen.served.by_answer[due.request.id, 0][-1].stamp_ns)
        for due in seen.served.due
        if due.request.id >= RUNNING
    ]
    return max(sum(start <= at < end for start, end in spans) for at, _ in spans)


def gaps(seen: Seen) -> list[float]:
    """Time between tokens of the requests that run, in ms."""
    found = []
    for request in range(RUNNING):
        stamps = [a.stamp_ns for a in seen.served.by_answer[request, 0]]
        found += [(b - a) / 1e6 for a, b in pairwise(stamps)]
    return sorted(found)


def main(lock: str | None) -> None:
    """A line a policy."""
    everybody = workload(0.0)
    point = ServePoint(
        requests=len(everybody), arrivals="at_once", prompt_tokens=32, new_tokens=NEW, slots=16,
        max_tokens=max(LONG + LONG_NEW, 32 + NEW),
    )  # fmt: skip
    few = everybody[:RUNNING]
    run(STACKS["prefill first"], point, everybody, lock=lock)  # warm
    alone = run(STACKS["prefill first"], point, few, lock=lock)
    due = workload(alone.served.duration_ns)
    print(
        f"{'policy':34} {'gap p50':>9} {'p90':>8} {'p99':>8} {'worst':>8}   "
        "first token of the long, at once"
    )
    told("the eight alone", alone, "")
    for name, stack in STACKS.items():
        seen = run(stack, point, due, lock=lock)
        first = [
            (seen.served.by_answer[r, 0][0].stamp_ns - due[r].at_ns) / 1e6
            for r in range(RUNNING, len(due))
        ]
        told(name, seen, f"{median(first):7.0f} ms {at_once(seen):9}")


def told(name: str, seen: Seen, end: str) -> None:
    """One line."""
    found = gaps(seen)
    p90, p99 = (found[len(found) * share // 100] for share in (90, 99))
    print(
        f"{name:34} {median(found):6.1f} ms {p90:5.1f} ms {p99:5.1f} ms {found[-1]:5.0f} ms   "
        f"{end}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock")
    main(parser.parse_args().lock)
