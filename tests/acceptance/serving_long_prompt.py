"""Lecture section 4: what running requests feel when a long prompt arrives, by who goes first.

    python -m tests.acceptance.serving_long_prompt [--lock FILE]      # a minute

Eight requests decode on the small model; while they do, three prompts of 1,024 tokens come. Times
are CPU time of this process. With a lock each run waits for its turn.
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

LONG, RUNNING, NEW = 1024, 8, 320
STACKS = {
    "prefill first": "gqa+paged+continuous(first=prefill)",
    "decode first, whole prompts": "gqa+paged+continuous",
    "decode first, prompts within 512": "gqa+paged+continuous(budget=512)",
    "chunked, 256 a step": "gqa+paged+continuous(chunk=true,budget=256)",
    "chunked, 64 a step": "gqa+paged+continuous(chunk=true,budget=64)",
}


def workload() -> list[Due]:
    """Who comes when: the long ones one after the other, while the others decode."""
    draw = random.Random(0)

    def prompt(tokens: int) -> tuple[int, ...]:
        return tuple(draw.randrange(1024) for _ in range(tokens))

    due = [Due(0, Request(i, prompt(32), NEW)) for i in range(RUNNING)]
    times = (500, 1800, 3100)
    return due + [
        Due(at * 1_000_000, Request(RUNNING + i, prompt(LONG), 8)) for i, at in enumerate(times)
    ]


def gaps(seen: Seen) -> list[float]:
    """Time between tokens of the requests that run, in ms."""
    found = []
    for request in range(RUNNING):
        stamps = [a.stamp_ns for a in seen.served.by_answer[request, 0]]
        found += [(b - a) / 1e6 for a, b in pairwise(stamps)]
    return sorted(found)


def main(lock: str | None) -> None:
    """A line a policy."""
    due = workload()
    longest = max(len(d.request.prompt) + d.request.max_new_tokens for d in due)
    point = ServePoint(
        requests=len(due), arrivals="at_once", prompt_tokens=32, new_tokens=NEW, slots=16,
        max_tokens=longest,
    )  # fmt: skip
    print(
        f"{'policy':34} {'gap p50':>9} {'p90':>8} {'p99':>8} {'worst':>8}   first token of the long"
    )
    run(STACKS["prefill first"], point, due, lock=lock)  # warm
    for name, stack in STACKS.items():
        seen = run(stack, point, due, lock=lock)
        found = gaps(seen)
        first = [
            (seen.served.by_answer[r, 0][0].stamp_ns - due[r].at_ns) / 1e6
            for r in range(RUNNING, len(due))
        ]
        p90, p99 = (found[len(found) * share // 100] for share in (90, 99))
        print(
            f"{name:34} {median(found):6.1f} ms {p90:5.1f} ms {p99:5.1f} ms {found[-1]:5.0f} ms   "
            f"{median(first):7.0f} ms",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock")
    main(parser.parse_args().lock)
