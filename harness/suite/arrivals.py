"""From a serve point to its requests: when each comes, how long it is, what it begins with.

A function of the point alone: every stack, round and night sees the same requests. Times are in ns
after the first moment of the run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from harness.errors import UsageError
from harness.suite import traces
from harness.suite.points import ServePoint


@dataclass(frozen=True)
class Piece:
    """A run of tokens of a prompt. Equal names are equal tokens; None is nobody else's."""

    tokens: int
    name: str | None = None


@dataclass(frozen=True)
class Arrival:
    """One request to come."""

    at_ns: int
    pieces: tuple[Piece, ...]
    new_tokens: int

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(piece.tokens for piece in self.pieces)


def arrivals(point: ServePoint) -> tuple[Arrival, ...]:
    """The point's requests in order of time. UsageError for a trace that cannot give them."""
    draw = random.Random(f"{point.seed}/lengths")
    window = _window(point) if point.trace is not None else ()
    times = _times(point, [row.at_ns for row in window])
    if not window:
        assert point.prompt_tokens is not None
        assert point.new_tokens is not None
        pieces = [_pieces(point, point.prompt_tokens, (), draw) for _ in times]
        news = [point.new_tokens] * point.requests
    else:
        lengths = [_scaled(row.prompt_tokens, point.scale) for row in window]
        blocks = [row.blocks for row in window]
        pieces = [_pieces(point, *each, draw) for each in zip(lengths, blocks, strict=True)]
        news = [_scaled(row.new_tokens, point.scale) for row in window]
    return tuple(Arrival(*each) for each in zip(times, pieces, news, strict=True))


def longest(found: Sequence[Arrival]) -> int:
    """Tokens of the longest request, prompt and new ones together."""
    return max(arrival.prompt_tokens + arrival.new_tokens for arrival in found)


def _window(point: ServePoint) -> Sequence[traces.TraceRow]:
    """So many requests of the trace in a row, from a place that the seed chooses."""
    assert point.trace is not None
    trace = traces.read(point.trace)
    if point.trace_digest not in (None, trace.digest):
        raise UsageError(
            f"the trace {point.trace} is not the one this case was planned with; plan again"
        )
    spare = len(trace.rows) - point.requests
    if spare < 0:
        raise UsageError(
            f"the trace {point.trace} holds {len(trace.rows):,} requests, and {point.requests:,} "
            "are asked for"
        )
    start = random.Random(f"{point.seed}/window").randint(0, spare)
    return trace.rows[start : start + point.requests]


def _times(point: ServePoint, recorded: Sequence[int]) -> list[int]:
    """When each request comes. A rate stretches a trace's times, whose bursts stay."""
    if point.arrivals == "at_once":
        return [0] * point.requests
    if point.arrivals == "trace":
        own = [at - recorded[0] for at in recorded]
        if point.rate is None or not own[-1]:
            return own
        stretch = (len(own) - 1) / point.rate * 1e9 / own[-1]
        return [round(at * stretch) for at in own]
    assert point.rate is not None
    draw = random.Random(f"{point.seed}/gaps")
    # A gamma distribution with shape 1 is the exponential one.
    shape = 1.0 if point.arrivals == "poisson" else point.burstiness**-2
    gaps = (draw.gammavariate(shape, 1 / (shape * point.rate)) for _ in range(point.requests))
    return [round(at * 1e9) for at in accumulate(gaps)]


def _scaled(tokens: int, scale: float) -> int:
    return max(1, round(tokens * scale))


def _pieces(
    point: ServePoint, tokens: int, blocks: Sequence[int], draw: random.Random
) -> tuple[Piece, ...]:
    """What a prompt is put together from: the trace's blocks, or one of the shared beginnings."""
    if blocks:
        size = traces.BLOCK_TOKENS * point.scale
        return tuple(_blocks(tokens, blocks, max(1, round(size))))
    if point.prefix_tokens:
        beginning = f"prefix {draw.randrange(point.prefixes)}"
        return (Piece(point.prefix_tokens, beginning), Piece(tokens))
    return (Piece(tokens),)


def _blocks(tokens: int, blocks: Sequence[int], size: int) -> Iterator[Piece]:
    """Named blocks up to the prompt's end. What was rounded away is the last one's."""
    left = tokens
    for number, block in enumerate(blocks):
        last = number == len(blocks) - 1
        taken = left if last else min(size, left)
        if taken:
            yield Piece(taken, f"block {block}")
        left -= taken
