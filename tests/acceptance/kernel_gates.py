"""Every Triton kernel at every test shape of its spec, in both dtypes, by Triton's interpreter.

    TRITON_INTERPRET=1 python tests/acceptance/kernel_gates.py

CI takes all shapes in float32 and a third of them in float16. Ends with 1 where a gate is red.
"""

from __future__ import annotations

import sys
import time

import torch

from harness import registry
from harness.gates.kernel import complaints
from harness.technique import load


def main() -> int:
    """Print a line a kernel: shapes, processor time, and what is wrong."""
    wrong = 0
    for name in registry.kernel_names():
        spec = registry.kernel(name)
        if spec.triton is None:
            continue
        start, said = time.process_time(), []
        for shape in spec.shapes["test"]:
            for dtype in (torch.float32, torch.float16):
                found = complaints(spec, shape, dtype, load(spec.triton))
                said += [f"{dtype} {dict(shape)}: {text}" for text in found]
        seconds = time.process_time() - start
        print(f"{name:20} {len(spec.shapes['test'])} shapes, {seconds:.0f} CPU s, {len(said)} red")
        print("".join(f"  {text}\n" for text in said), end="")
        wrong += len(said)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
