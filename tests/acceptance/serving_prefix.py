"""What holding equal beginnings once buys, by how many there are: the Mooncake trace.

    python -m tests.acceptance.serving_prefix [--lock FILE]      # some minutes

Windows of the trace with few and many repeated blocks, lengths scaled by 1/128 (a block of 512
tokens becomes one of 4), on the small model: the same requests with and without sharing, in the
same memory. The hit rate is what the cache found; `could` is what an endless one would have found.
Then made-up prompts of which a given share is a common beginning.
"""

from __future__ import annotations

import argparse

from harness.suite.arrivals import arrivals
from harness.suite.points import ServePoint
from tests.acceptance.serving_bench import Seen, run

PLAIN = "gqa+paged(block=4)+continuous"
SHARED = "gqa+paged(block=4,share=true)+continuous"
SEEDS = (0, 3, 7)
MEMORY_MB = (6, 12, 24)


def trace(seed: int, memory_mb: float) -> ServePoint:
    """150 requests of the trace, all at once: what runs is decided by memory."""
    return ServePoint(
        requests=150, arrivals="at_once", trace="mooncake-2025-synthetic", scale=1 / 128, seed=seed,
        slots=32, max_tokens=1536, state_bytes=round(memory_mb * 1e6),
    )  # fmt: skip


def made_up(common: int) -> ServePoint:
    """60 prompts of 256 tokens that begin with so many common ones."""
    return ServePoint(
        requests=60, arrivals="at_once", prompt_tokens=256 - common, new_tokens=16,
        prefix_tokens=common, slots=16, max_tokens=512, state_bytes=24_000_000,
    )  # fmt: skip


def could(point: ServePoint) -> float:
    """Share of the prompts' tokens that lie in a leading run of pieces seen before."""
    known: set[str | None] = set()
    found = asked = 0
    for arrival in arrivals(point):
        asked += arrival.prompt_tokens
        for piece in arrival.pieces:
            if piece.name is None or piece.name not in known:
                break
            found += piece.tokens
        known.update(piece.name for piece in arrival.pieces)
    return found / asked


def told(name: str, best: float, plain: Seen, shared: Seen) -> None:
    """One line: sharing beside not sharing."""

    def times(metric: str) -> float:
        return plain.number(metric) / shared.number(metric)

    print(
        f"{name:26} {best:6.1%} {shared.values['prefix_hit_rate'] or 0:6.1%} "
        f"{shared.number('ttft') / 1e6:9,.0f} ms {times('ttft'):6.2f}x {times('ttft_p90'):6.2f}x "
        f"{1 / times('throughput'):7.2f}x {plain.rows / shared.rows:7.2f}x "
        f"{1 / times('peak_sequences'):6.2f}x "
        f"{_held(plain) / _held(shared):8.2f}x",
        flush=True,
    )


def _held(seen: Seen) -> float:
    """Places held a running sequence, over the time of the steps."""
    steps = seen.served.steps
    held: float = sum(s.counters["places_held"] * (s.end_ns - s.start_ns) for s in steps)
    return held / sum(s.counters["running"] * (s.end_ns - s.start_ns) for s in steps)


def main(lock: str | None) -> None:
    """A line for each workload."""
    print(
        f"{'workload':26} {'could':>6} {'hits':>6} {'first token':>12} {'p50':>7} {'p90':>7} "
        f"{'tok/s':>8} {'fewer rows':>10} {'peak':>6} {'less held':>8}"
    )
    for seed in SEEDS:
        point = trace(seed, 24)
        plain, shared = (run(stack, point, lock=lock) for stack in (PLAIN, SHARED))
        told(f"mooncake window {seed}, 24 MB", could(point), plain, shared)
    for memory in MEMORY_MB:
        point = trace(SEEDS[-1], memory)
        plain, shared = (run(stack, point, lock=lock) for stack in (PLAIN, SHARED))
        told(f"mooncake window {SEEDS[-1]}, {memory} MB", could(point), plain, shared)
    for common in (0, 64, 128, 192, 240):
        point = made_up(common)
        plain, shared = (run(stack, point, lock=lock) for stack in (PLAIN, SHARED))
        told(f"{common} of 256 tokens common", could(point), plain, shared)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock")
    main(parser.parse_args().lock)
