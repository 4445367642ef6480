"""Throughput against latency under load: static as classic servers do it, against continuous.

    python -m tests.acceptance.serving_load [--requests 500] [--lock FILE]     # half an hour

The Azure conversation trace, lengths scaled by 1/8 to the small model, its own times stretched to
loads from 0.3 to 2 times what continuous with a paged cache can do. All stacks have the same memory
for keys and values. `static` computes finished rows and holds answers back until its batch is done,
and has the batch size at which it does most. Rows fed explain a ratio: they are the same on any
machine. With a lock each run waits for its turn.
"""

from __future__ import annotations

import argparse
from functools import partial

from harness.suite.points import ServePoint
from tests.acceptance.serving_bench import Seen, run

STATIC = "gqa+static(batch={},pad_finished=true,emit_at_end=true)"
RAGGED = "gqa+static(batch={})"
CONTINUOUS = ("gqa+continuous", "gqa+paged+continuous")
LOADS = (0.3, 0.6, 0.8, 1.0, 1.4, 2.0)


def point(count: int) -> ServePoint:
    """All requests at once, in 24 MB: 11,700 tokens."""
    return ServePoint(
        requests=count,
        arrivals="at_once",
        trace="azure-2023-conversation",
        scale=0.125,
        seed=1,
        slots=64,
        max_tokens=1,
        state_bytes=24_000_000,
    )


def told(seen: Seen, load: str) -> None:
    """One line of the table."""
    print(
        f"{seen.stack:58} {load:>7} {seen.number('throughput'):7.0f} "
        f"{seen.number('request_rate'):6.2f} {seen.number('goodput'):6.2f} {seen.ms('ttft_p90')}"
        f"{seen.ms('e2e_p90')}{seen.ms('normalized_latency_p90')} {seen.rows:8,} "
        f"{seen.number('peak_sequences'):4.0f} {seen.values['cache_waste'] or 0:6.1%}",
        flush=True,
    )


def main(count: int, lock: str | None) -> None:
    """Print capacities, the sweep, and throughput at equal latency."""
    base, serve = point(count), partial(run, lock=lock)
    print(
        f"{'stack':58} {'load':>7} {'tok/s':>7} {'req/s':>6} {'good/s':>6} {'ttft90':>9}"
        f"{'e2e90':>9}{'per tok90':>9} {'rows fed':>8} {'peak':>4} {'waste':>6}"
    )
    short = base.model_copy(update={"requests": min(count, 150)})
    trials = {batch: serve(STATIC.format(batch), short) for batch in (4, 8, 16, 32)}
    for seen in trials.values():
        told(seen, "at once")
    best = max(trials, key=lambda batch: trials[batch].number("throughput"))
    told(serve(RAGGED.format(best), short), "at once")
    for stack in CONTINUOUS:
        seen = serve(stack, short)
        told(seen, "at once")
    capacity = seen.number("request_rate")
    stacks = (STATIC.format(best), *CONTINUOUS)
    swept: dict[str, list[Seen]] = {stack: [] for stack in stacks}
    for load in LOADS:
        at = base.model_copy(update={"arrivals": "trace", "rate": load * capacity})
        for stack in stacks:
            swept[stack].append(serve(stack, at))
            told(swept[stack][-1], f"{load:g}x")
    conclude(swept, stacks[0])


def conclude(swept: dict[str, list[Seen]], static: str) -> None:
    """Ratios at saturation, and the most that each does within a latency that static reaches."""
    for name in ("normalized_latency_p90", "e2e_p90"):
        print(f"\nthroughput at no more than static's {name}")
        for base in swept[static]:
            bound = base.number(name)
            for stack in CONTINUOUS:
                within = [s.number("throughput") for s in swept[stack] if s.number(name) <= bound]
                most = max(within, default=0.0)
                print(
                    f"  static {base.number('throughput'):6.0f} tok/s at {bound / 1e6:8,.0f} ms;"
                    f" {stack:22} {most:6.0f} tok/s, {most / base.number('throughput'):5.2f}x"
                )
    last = {stack: seen[-1] for stack, seen in swept.items()}
    for stack, seen in last.items():
        tokens = sum(step.tokens for step in seen.served.steps)
        print(
            f"\nat 2x {stack}: {seen.number('throughput') / last[static].number('throughput'):.2f}x"
            f" static's throughput; {seen.rows / tokens:.2f} rows fed a token, "
            f"{seen.busy_seconds / seen.rows * 1e6:.0f} us a row, "
            f"{seen.rows / len(seen.served.steps):.0f} rows a step"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--lock")
    given = parser.parse_args()
    main(given.requests, given.lock)
