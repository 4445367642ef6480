"""Which sequences a CPU takes in one call of decode attention: decided from their lengths alone.

A call costs some time whatever it does, and padding costs work: what was measured decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.kernels.prefill_attention.lengths import Lengths

# Below this many tokens padding beats a loop over sequences, whatever the lengths; above it, where
# the padded work exceeds the needed one by this factor, the loop wins (one row a sequence: at 1.0
# padding won, at 1.8 the loop; five rows: at 1.6 padding still took 0.8 of the loop's time).
SHORT = 256
PADDING_FACTOR = 1.3
DRAFT_PADDING_FACTOR = 2.0
# Slots read where they lie take less time a token, as nothing is copied or taken by itself: as much
# as the loop at 1.9 times its tokens where sequences hold 1,000, at 4 times where they hold 190. So
# padding may cost half the tokens, and what a call for each would cost: as many as CALL.
IN_PLACE_FACTOR = 1.5
CALL = 512


def apart(known: Lengths) -> bool:
    """Whether the sequences' lengths differ too much to be padded to one."""
    factor = PADDING_FACTOR if known.max_rows == 1 else DRAFT_PADDING_FACTOR
    many = len(known.lens) * known.max_len
    return known.max_len >= SHORT and many > factor * known.total_len


def near(slots: Sequence[int], known: Lengths) -> bool:
    """Whether all slots from the first of these to the last are best computed with together."""
    if len(set(slots)) < len(slots):  # one that two sequences read has no place of its own
        return False
    padded = (max(slots) - min(slots) + 1) * known.max_len
    return padded <= IN_PLACE_FACTOR * known.total_len + CALL * len(slots)
