"""Many tests at once: which of them are discoveries when only a share of those may be false."""

from __future__ import annotations

from collections.abc import Sequence

Q = 0.01  # of the changes that are called changes, at most this share may be none


def discoveries(p: Sequence[float], q: float = Q) -> list[bool]:
    """For each p-value whether it is a discovery at false-discovery rate q.

    The whole family belongs in here: a test that is left out because it looks dull makes the
    others look better than they are. What must not count, for example for its direction, is given
    p = 1 before and not taken out after. Source: Benjamini and Hochberg, Controlling the false
    discovery rate, 1995, section 3.1.
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    last = 0
    for rank, i in enumerate(order, 1):
        if p[i] <= q * rank / len(p):
            last = rank
    found = [False] * len(p)
    for i in order[:last]:
        found[i] = True
    return found
