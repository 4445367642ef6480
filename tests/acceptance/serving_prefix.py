"""What holding equal beginnings once buys, by how many there are: the Mooncake trace.

    python -m tests.acceptance.serving_prefix [--lock FILE]      # some minutes

A window of the trace holds few repeated blocks, as its conversations come back over minutes. So it
is thinned by conversation, requests whose prompts begin with the same block of 512 tokens: beside
the first 150 requests of the trace, whole conversations of at least 1, 2 and 4 requests, in the
order of their first ones, until there are 150. Lengths are scaled by 1/64 (a block of 512 tokens
becomes one of 8) to the small model, answers by 1/8, as otherwise none would run beside another.

The same requests are served with and without sharing in the same memory: first at 0.6 of the rate
that the cache without sharing can do, for the first token (TTFT), then all at once, for everything
else. The hit rate is what the cache found; `could` is what an endless one would have found. Below:
less memory, then made-up prompts of 256 tokens, of which a given share is a common beginning.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from harness.suite import traces
from harness.suite.arrivals import arrivals
from harness.suite.points import ServePoint
from tests.acceptance.serving_bench import Seen, run

PLAIN = "gqa+paged(block=8)+continuous"
SHARED = "gqa+paged(block=8,share=true)+continuous"
TRACE = "mooncake-2025-synthetic"
REQUESTS, SCALE, ANSWERS, LONGEST = 150, 1 / 64, 8, 1536
TURNS = (0, 1, 2, 4)
MEMORY_MB = (24, 12)
COMMON = (0, 64, 128, 192, 240)
LOAD = 0.6


def thinned(turns: int, folder: Path) -> Path:
    """The trace's first whole conversations of so many requests or more, as a file.

    0: its first requests, whatever they belong to.
    """
    conversations: dict[int, list[traces.TraceRow]] = {}
    for number, row in enumerate(traces.read(TRACE).rows):
        conversations.setdefault(row.blocks[0] if turns else number, []).append(row)
    chosen: list[traces.TraceRow] = []
    for rows in conversations.values():
        if len(rows) >= turns and len(chosen) < REQUESTS:
            chosen += rows
    chosen.sort(key=lambda row: row.at_ns)
    file = folder / f"turns-{turns}.jsonl"
    lines = (
        {
            "timestamp": row.at_ns / 1e6,
            "input_length": row.prompt_tokens,
            "output_length": ANSWERS * row.new_tokens,
            "hash_ids": row.blocks,
        }
        for row in chosen[:REQUESTS]
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def recorded(file: Path, memory_mb: float) -> ServePoint:
    """All requests of a file at once: what runs is decided by memory."""
    return ServePoint(
        requests=REQUESTS, arrivals="at_once", trace=str(file), scale=SCALE, slots=32,
        max_tokens=LONGEST, state_bytes=round(memory_mb * 1e6),
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


def compare(name: str, point: ServePoint, lock: str | None) -> None:
    """One line: sharing beside not sharing, under load and all at once."""
    plain, shared = (run(stack, point, lock=lock) for stack in (PLAIN, SHARED))
    loaded = point.model_copy(
        update={"arrivals": "poisson", "rate": LOAD * plain.number("request_rate")}
    )
    calm, calmer = (run(stack, loaded, lock=lock) for stack in (PLAIN, SHARED))

    def first(seen: Seen) -> str:
        return f"{seen.number('ttft') / 1e6:5.0f} {seen.number('ttft_p90') / 1e6:5.0f}"

    def less(metric: str, one: Seen, other: Seen) -> float:
        return one.number(metric) / other.number(metric)

    print(
        f"{name:24} {could(point):6.1%} {calmer.number('prefix_hit_rate'):6.1%}  {first(calm)}"
        f"   {first(calmer)} {less('ttft', calm, calmer):5.2f}x "
        f"{less('ttft_p90', calm, calmer):5.2f}x   {shared.number('prefix_hit_rate'):6.1%} "
        f"{less('throughput', shared, plain):5.2f}x {plain.rows / shared.rows:5.2f}x "
        f"{plain.number('peak_sequences'):4.0f} {shared.number('peak_sequences'):4.0f} "
        f"{_held(plain):6.0f} {_held(shared):6.0f} {_held(plain) / _held(shared):5.2f}x "
        f"{shared.number('refused'):4.0f}",
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
        f"{'':31} at {LOAD} of the rate: first token, ms{'':12}all at once\n"
        f"{'':24} {'could':>6} {'hits':>6}  {'p50':>5} {'p90':>5}   {'p50':>5} {'p90':>5} "
        f"{'p50':>6} {'p90':>6}   {'hits':>6} {'tok/s':>6} {'rows':>6} {'peak':>9} "
        f"{'places a sequence':>20} {'refused':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        files = {turns: thinned(turns, Path(folder)) for turns in TURNS}
        for turns, file in files.items():
            name = f"{turns} requests or more" if turns else "as it is"
            compare(name, recorded(file, 48), lock)
        for memory in MEMORY_MB:
            compare(f"{TURNS[-1]} or more, {memory} MB", recorded(files[TURNS[-1]], memory), lock)
    for common in COMMON:
        compare(f"{common} of 256 tokens common", made_up(common), lock)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock")
    main(parser.parse_args().lock)
