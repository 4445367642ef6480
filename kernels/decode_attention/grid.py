"""The grid of decode attention: packed rows a program, and parts that a sequence is cut into."""

from functools import cache

from harness.launch import INTERPRETED

# Rows a matrix product has at least; a group of query heads is padded to it.
MIN_PACKED = 16
# More packed rows than this take several programs, which read K and V again each.
MAX_PACKED = 64
# A part of a sequence is worth a program of its own from about here: below, writing and merging
# its output costs more than a few percent of reading its keys and values.
MIN_PART_TOKENS = 256
MAX_SPLITS = 64
# Programs of four warps that a multiprocessor keeps in flight; latency of memory hides behind them.
RESIDENT = 2
# Where lengths are unknown when the grid is made (a captured graph), so many programs a place on
# the device may turn out to have nothing to do: more would cost more than an uneven batch does.
IDLE_PROGRAMS = 16


def block_m(packed: int) -> int:
    """Packed rows a program takes, of as many as a sequence has for one key/value head."""
    return min(MAX_PACKED, max(MIN_PACKED, 1 << (packed - 1).bit_length()))


def least_part(arch: str) -> int:
    """Tokens that a part has at least; few in the interpreter, so that small tests are split."""
    return 16 if arch == INTERPRETED else MIN_PART_TOKENS


def plan(
    per_sequence: int, longest: int, total: int, units: int, least: int, *, exact: bool
) -> tuple[int, int]:
    """How many parts a sequence may have, and how many programs to share the work out among.

    By the device's size and the work, no fixed threshold: the fewest parts that keep the device
    within 15 % of its best occupancy, were all sequences as long as the longest. All programs run
    in waves of `units * RESIDENT`, and a last wave that is nearly empty wastes the rest. A batch
    whose lengths differ shares its work out among as many programs: the long sequences get more.

    Args:
        per_sequence: programs a sequence without a split.
        longest: tokens that a sequence reads at most.
        total: tokens that all sequences read.
        units: multiprocessors of the device.
        least: tokens a part has at least.
        exact: whether `longest` and `total` are known, or bounds for whatever the lengths will be.
    """
    slots = units * RESIDENT
    most = max(1, min(MAX_SPLITS, -(-longest // least)))
    programs = per_sequence * max(1, round(total / max(1, longest)))
    parts = _fewest_parts(programs, most, slots)
    wanted = programs * parts
    if exact:
        # The longest sequence gets its share of the work, rounded up to whole tiles.
        span = max(least, -(-total * per_sequence // wanted), 1)
        return max(1, min(most, -(-longest // span))), wanted
    # One sequence may turn out to be nearly all the work.
    return max(parts, min(most, IDLE_PROGRAMS * slots // programs)), wanted


# Asked once a layer and step; `most` changes every `least` tokens.
@cache
def _fewest_parts(programs: int, most: int, slots: int) -> int:
    def occupancy(parts: int) -> float:
        return programs * parts / slots / -(-programs * parts // slots)

    best = max(occupancy(parts) for parts in range(1, most + 1))
    return next(parts for parts in range(1, most + 1) if occupancy(parts) >= 0.85 * best)
