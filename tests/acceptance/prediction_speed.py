"""Seconds in which `harness predict` predicts 100,000 cells; the target is under 5.

    python tests/acceptance/prediction_speed.py

Runs the command itself, from its start to the last line of its CSV: one stack at 100 batches, 100
prompt lengths and 10 devices. Counts the lines, holds some of them to predictions of their cells
alone, prints processor and wall time of the best of three runs, and fails above the target. The
processor's time is judged: it is what the work takes, whoever else the machine serves.
"""

from __future__ import annotations

import csv
import io
import math
import resource
import subprocess
import sys
import time

TARGET_SECONDS = 5.0
RUNS = 3
BATCHES = range(1, 101)
PROMPTS = range(80, 8_001, 80)
DEVICES = (
    "a100-80", "h100-sxm", "h100-pcie", "h200-sxm", "b200", "a100-40", "a40", "l40s", "l4", "a10g",
)  # fmt: skip
ALONE = ((1, 80, "a100-80"), (64, 4000, "h100-sxm"), (100, 8000, "l4"))


def main() -> int:
    """Print the figures; 1 when the target is missed or a cell is wrong."""
    cells = len(BATCHES) * len(PROMPTS) * len(DEVICES)
    taken = []
    for _ in range(RUNS):
        lines, processor_s, wall_s = predict(list(BATCHES), list(PROMPTS), DEVICES)
        taken.append((processor_s, wall_s))
        if len(lines) != cells:
            print(f"MISS  {len(lines)} cells were predicted, not {cells}")
            return 1
    processor_s, wall_s = min(taken)
    wrong = 0
    found = {(int(x["batch"]), int(x["prompt_tokens"]), x["hardware"]): x for x in lines}
    for batch, prompt, device in ALONE:
        (alone,), _, _ = predict([batch], [prompt], [device])
        within = found[batch, prompt, device]
        for name in ("ttft_s", "tpot_s", "tokens_per_s", "peak_bytes"):
            wrong += not math.isclose(float(alone[name]), float(within[name]), rel_tol=1e-9)
    print(
        f"{cells:,} cells: {processor_s:.2f} s of processor time, {wall_s:.2f} s of wall time "
        f"(target {TARGET_SECONDS:g} s); {wrong} numbers of {len(ALONE)} cells differ from those "
        "predicted alone"
    )
    return 0 if processor_s < TARGET_SECONDS and not wrong else 1


def predict(
    batches: list[int], prompts: list[int], devices: tuple[str, ...] | list[str]
) -> tuple[list[dict[str, str]], float, float]:
    """The lines of the command's CSV, and the seconds it took, of processor and wall."""
    command = [
        *(sys.executable, "-m", "harness", "predict", "--csv"),
        *("--stack", "gqa(kv_heads=8)", "--model", "llama-3-8b"),
        *("--set", f"workload.batch={','.join(map(str, batches))}"),
        *("--set", f"workload.prompt_tokens={','.join(map(str, prompts))}"),
        *("--hardware", ",".join(devices)),
    ]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall_s, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return list(csv.DictReader(io.StringIO(done.stdout))), processor_s, wall_s


if __name__ == "__main__":
    sys.exit(main())
