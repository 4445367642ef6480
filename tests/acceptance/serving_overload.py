"""Twice the load that can be carried, then a pause: the queue grows, nothing breaks, it recovers.

    python -m tests.acceptance.serving_overload [--lock FILE]      # a few minutes

Poisson arrivals on the small model: 60 requests at half the capacity, 240 at twice it, nothing for
a while, and 60 at half again. One request in twenty is longer than the whole cache and is refused.
Exit code 1 where the last phase is slower than the first, where a request is lost, or where the
wait did not grow in between.
"""

from __future__ import annotations

import argparse
import random
import sys
from itertools import accumulate
from statistics import median

from harness.engine.request import Request
from harness.measure.serve import Due
from harness.suite.points import ServePoint
from tests.acceptance.serving_bench import run

STACK = "gqa+paged+continuous"
PROMPT, NEW, SLOTS = 96, 24, 32
# Places for 40 requests; the long ones need more than that alone.
STATE_BYTES = 40 * (PROMPT + NEW) * 2048
TOO_LONG = 1800
PHASES = ((60, 0.5), (240, 2.0), (60, 0.5))


def point(**changes: object) -> ServePoint:
    """Fixed lengths: only arrivals change."""
    fixed = ServePoint(
        requests=120, arrivals="at_once", prompt_tokens=PROMPT, new_tokens=NEW, slots=SLOTS,
        max_tokens=2000, state_bytes=STATE_BYTES // 4,
    )  # fmt: skip
    return fixed.model_copy(update=changes)


def workload(capacity: float) -> tuple[list[Due], list[range]]:
    """Requests of all phases, and which belong to each."""
    draw, start = random.Random(4), 0.0
    due: list[Due] = []
    phases: list[range] = []
    for count, load in PHASES:
        gaps = [draw.expovariate(load * capacity) for _ in range(count)]
        phases.append(range(len(due), len(due) + count))
        for at in accumulate(gaps, initial=start):
            if len(due) == phases[-1].stop:
                break
            tokens = TOO_LONG if draw.random() < 0.05 else PROMPT
            prompt = tuple(draw.randrange(1024) for _ in range(tokens))
            due.append(Due(round(at * 1e9), Request(len(due), prompt, NEW)))
        # Time enough for the queue of twice the load to empty.
        start = due[-1].at_ns / 1e9 + 1.2 * count * max(0.0, 1 - 1 / load) / capacity + 1
    return due, phases


def main(lock: str | None) -> bool:
    """Print the phases; whether all went as it must."""
    capacity = run(STACK, point(), lock=lock).number("request_rate")
    due, phases = workload(capacity)
    seen = run(STACK, point(), due, lock=lock)
    served = seen.served
    print(f"capacity {capacity:.1f} requests/s; {len(served.refused)} refused, for example:")
    print(f"  {next(iter(served.refused.values()))}")
    print(f"{'phase':22} {'answered':>8} {'queue p50':>10} {'worst':>8} {'first token p50':>16}")
    waits, firsts, answered = [], [], 0
    for (count, load), members in zip(PHASES, phases, strict=True):
        rows = [r for r in members if r not in served.refused]
        queue = [(served.entered_ns[r] - due[r].at_ns) / 1e6 for r in rows]
        first = [(served.by_answer[r, 0][0].stamp_ns - due[r].at_ns) / 1e6 for r in rows]
        waits.append(max(queue))
        firsts.append(median(first))
        answered += len(rows)
        print(
            f"{count:4} at {load:g}x capacity    {len(rows):8} {median(queue):7.0f} ms "
            f"{max(queue):5.0f} ms {median(first):13.0f} ms"
        )
    whole = answered + len(served.refused) == len(due) and len(served.finished) == answered
    grew = waits[1] > 10 * max(waits[0], 1.0)
    recovered = firsts[2] < 1.5 * firsts[0]
    print(f"nothing lost: {whole}; the queue grew: {grew}; it recovered: {recovered}")
    return whole and grew and recovered and bool(served.refused)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock")
    sys.exit(0 if main(parser.parse_args().lock) else 1)
