"""CPU seconds to plan 10,000 cases; the target is under 2.

    python tests/acceptance/planning_speed.py

Plans a suite of 20 stacks (gqa with and without options, with and without a cache, under both
schedules) at 500 points each, hashes included, as a sweep does before it starts. Prints the best
and the median of five repetitions, and fails above the target.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness.suite import cases, load

TARGET_SECONDS = 2.0
REPETITIONS = 5

SUITE = """\
suite: large
stacks:
  - mha
  - gqa
  - gqa(kv_heads=2)
  - static(pad_finished=true)+gqa
  - static(emit_at_end=true)+gqa
  - static(pad_finished=true)+gqa(kv_heads=2)
  - static(emit_at_end=true)+gqa(kv_heads=2)
  - static(pad_finished=true,emit_at_end=true)+gqa(kv_heads=2)
  - static(pad_finished=true)+mha
  - static(emit_at_end=true)+mha
  - mha+recompute
  - gqa+recompute
  - gqa(kv_heads=2)+recompute
  - static(pad_finished=true)+gqa+recompute
  - static(emit_at_end=true)+gqa+recompute
  - static(pad_finished=true)+gqa(kv_heads=2)+recompute
  - static(emit_at_end=true)+gqa(kv_heads=2)+recompute
  - static(pad_finished=true,emit_at_end=true)+gqa(kv_heads=2)+recompute
  - static(pad_finished=true)+mha+recompute
  - static(emit_at_end=true)+mha+recompute
model: tiny
workload: {kind: generate, batch: [BATCH], prompt_tokens: [PROMPT], new_tokens: [16, 64]}
dtype: [float32, bfloat16]
"""


def main() -> int:
    """Print the figures; 1 when the target is missed."""
    text = SUITE.replace("BATCH", ", ".join(str(1 + 4 * i) for i in range(25)))
    text = text.replace("PROMPT", ", ".join(str(64 * (i + 1)) for i in range(5)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "large.yaml"
        file.write_text(text)
        seconds = []
        for _ in range(REPETITIONS):
            started = time.process_time()
            planned = cases(load(file), "cpu")
            hashes = {entry.case.hash for entry in planned}
            seconds.append(time.process_time() - started)
    assert len(hashes) == len(planned) == 10_000
    assert all(entry.plan for entry in planned)
    best, median = min(seconds), statistics.median(seconds)
    print(f"{len(planned):,} cases: best {best:.2f} s, median {median:.2f} s of CPU time")
    print(f"target: under {TARGET_SECONDS} s")
    return 0 if best < TARGET_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
