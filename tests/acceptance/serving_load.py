"""Throughput against latency under load: static as classic servers do it, against continuous.

    python -m tests.acceptance.serving_load [--requests 500] [--lock FILE]     # ten minutes

The Azure conversation trace, lengths scaled by 1/8 to the small model, its own times stretched to
loads from 0.3 to 2 times what continuous with a paged cache can do. All stacks have the same memory
for keys and values. `static` computes finished rows and holds answers back until its batch is done,
and has the batch size at which it does most. With a lock each run waits for its turn.

Throughput at equal latency: of each stack the most within a bound, on straight lines between the
loads that were measured (throughput over the logarithm of the latency), and nothing beyond them.

The profile: step times as a sum of what a step costs, what a row fed costs, and what an entry read
costs, by least squares over all steps of all stacks. Rows and steps are the same on any machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import log

import torch

from harness.suite.points import ServePoint
from tests.acceptance.serving_bench import Seen, run

STATIC = "gqa+static(batch={},pad_finished=true,emit_at_end=true)"
RAGGED = "gqa+static(batch={})"
CONTINUOUS = ("gqa+continuous", "gqa+paged+continuous")
LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
BOUNDS = 8  # latencies that throughputs are compared at


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
    for metric in ("normalized_latency_p90", "e2e_p90", "ttft_p90"):
        compare(swept, metric)
    profile(swept)


def within(seen: Sequence[Seen], metric: str, bound: float) -> float | None:
    """The most tokens a second at no more than this latency; None where none was measured."""
    curve = [(s.number(metric), s.number("throughput")) for s in seen]
    found = [throughput for latency, throughput in curve if latency <= bound]
    for (a, low), (b, high) in pairwise(curve):
        if min(a, b) <= bound < max(a, b):
            found.append(low + (high - low) * log(bound / a) / log(b / a))
    return max(found, default=None)


def compare(swept: dict[str, list[Seen]], metric: str) -> None:
    """Throughput at equal latency, from static's lowest to its highest."""
    static, *others = swept
    reached = sorted(seen.number(metric) for seen in swept[static])
    least, most = reached[0], reached[-1]
    print(f"\ntokens a second at no more than this {metric}, in ms")
    print(f"{'':>10} {'static':>8}" + "".join(f" {stack:>28}" for stack in others))
    for i in range(BOUNDS):
        bound = least * (most / least) ** (i / (BOUNDS - 1))
        base = within(swept[static], metric, bound)
        assert base is not None
        line = f"{bound / 1e6:10,.0f} {base:8.0f}"
        for stack in others:
            best = within(swept[stack], metric, bound)
            shown = "none so low" if best is None else f"{best:.0f}, {best / base:.2f}x"
            line += f" {shown:>28}"
        print(line)


def profile(swept: dict[str, list[Seen]]) -> None:
    """What the time at the highest load goes into."""
    steps = [s for seen in swept.values() for each in seen for s in each.served.steps]
    fed = [s for s in steps if s.counters["fed"]]
    facts = torch.tensor(
        [[1.0, s.counters["fed"], s.counters["places_used"]] for s in fed], dtype=torch.float64
    )
    took = torch.tensor([(s.end_ns - s.start_ns) / 1e3 for s in fed], dtype=torch.float64)
    # Weighted by the size, so that many small steps and few large ones count alike.
    scale = took.rsqrt()[:, None]
    a_step, a_row, an_entry = torch.linalg.lstsq(facts * scale, took[:, None] * scale).solution[
        :, 0
    ]
    print(f"\na step takes {a_step:.0f} us, and {a_row:.1f} us a row fed, "
          f"and {1000 * an_entry:.0f} us per 1,000 entries held")  # fmt: skip
    print(f"at {LOADS[-1]:g}x {'':32} tok/s  us/token: steps   rows  entries  not so told "
          "   rows a token  tokens a step")  # fmt: skip
    for stack, seen in swept.items():
        last = seen[-1]
        own = [s for s in last.served.steps if s.counters["fed"]]
        tokens = sum(s.tokens for s in own)
        entries = sum(s.counters["places_used"] for s in own)
        parts = (a_step * len(own), a_row * last.rows, an_entry * entries)
        rest = last.busy_seconds * 1e6 - sum(parts)
        print(
            f"{stack[:36]:36} {last.number('throughput'):9.0f} "
            f"{parts[0] / tokens:16.0f} {parts[1] / tokens:6.0f} {parts[2] / tokens:8.0f} "
            f"{rest / tokens:12.0f} {last.rows / tokens:15.2f} {tokens / len(own):14.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--lock")
    given = parser.parse_args()
    main(given.requests, given.lock)
