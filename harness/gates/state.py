"""State bytes: what the engine's tensors hold is what the architecture's declaration says."""

from __future__ import annotations

from collections.abc import Sequence

from harness.gates.verdict import verdict
from harness.run import GateResult
from harness.shape import DTYPE_BYTES, DTypeName, SequenceState, TokenState
from harness.suite.points import GeneratePoint


def expected_bytes(
    tokens: Sequence[TokenState],
    sequences: Sequence[SequenceState],
    point: GeneratePoint,
    dtype: DTypeName,
    *,
    incremental: bool,
) -> int:
    """State of B finished sequences: S = P + N - 1 entries each, the last token is never cached.

    Args:
        tokens: declared groups of per-token entries; a group with a window keeps the last of them.
        sequences: declared groups of fixed size.
        incremental: False where earlier tokens are fed again instead of held.
    """
    held = point.prompt_tokens + point.new_tokens - 1 if incremental else 0
    numbers = 0
    for group in tokens:
        entries = held if group.window is None else min(held, group.window)
        numbers += entries * group.entry_numbers
    fixed = sum(state.bytes(dtype) for state in sequences)
    return (numbers * DTYPE_BYTES[dtype] + fixed) * point.batch


def check_state_bytes(measured: int, expected: int) -> GateResult:
    """Hold the measured state to the formula, exactly."""
    return verdict(
        "state_bytes",
        abs(measured - expected),
        0,
        "bytes",
        f"{measured} bytes held, {expected} by the formula",
    )
