"""A million random operations on block tables, each held to a twin that remembers every token.

    python tests/acceptance/block_tables.py [OPERATIONS]      # a few minutes

Starts, appends, longer feeds, rewinds, forks, swaps and frees over pools of many sizes, with and
without sharing. Nothing leaks, nothing is freed twice, no shared block is written, references are
exact, and what is found by its content has it: any difference raises. Every sequence that a verb
touches is read back, and every thousand operations everything is.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter

from harness.techniques.paged.reference import Twin
from harness.techniques.paged.tables import Tables

EACH = 20_000


def main(operations: int) -> None:
    """Drive pool after pool, and print what happened."""
    started = time.process_time()
    done: Counter[str] = Counter()
    for seed in range(-(-operations // EACH)):
        draw = random.Random(seed)
        tables = Tables(
            draw.randrange(6, 200), draw.choice((1, 2, 3, 4, 8, 16)), share=seed % 3 > 0
        )
        twin = Twin(tables)
        for number in range(EACH):
            twin.random_step(draw)
            if number % 1000 == 0:
                twin.check()
        twin.finish()
        done.update(
            operations=EACH,
            prefixes_found=twin.hits,
            refused_for_room=twin.refused,
            blocks_copied_on_write=tables.copied,
            blocks_evicted=tables.blocks.evictions,
            pools=1,
        )
    for name, count in done.items():
        print(f"{name.replace('_', ' '):24} {count:>12,}")
    print(f"every check passed; {time.process_time() - started:.0f} s of CPU time")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
