"""A machine without Triton: kernels are listed as unavailable there, and backend torch runs."""

from __future__ import annotations

import subprocess
import sys

# `import triton` fails, as where it was never installed.
_HIDDEN = "import sys; sys.modules['triton'] = None\n"


def told(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _HIDDEN + program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_are_listed_as_unavailable() -> None:
    listed = told("from harness.cli import main\nsys.argv = ['harness', 'list', 'kernels']\nmain()")
    lines = [line for line in listed.splitlines() if line.startswith("decode_attention")]
    assert len(lines) == 1
    assert "torch (triton is not installed)" in lines[0]


_ENGINE = """
from harness import stack
from harness.engine.build import build
from harness.engine.request import Request, Sampling
from harness.errors import HarnessError
from harness.model import source

parsed, found = stack.parse("gqa"), source.find("tiny", ["gqa"])
for backend in ("torch", "triton"):
    plan = stack.resolve(parsed, found, dtype="float32", backend=backend, slots=1, max_tokens=12)
    try:
        engine = build(plan, found)
    except HarnessError as error:
        print(backend, "refused:", error)
        continue
    engine.submit(Request(0, (1, 2, 3), 4, Sampling(temperature=1.0, top_k=9)))
    count = 0
    while engine.has_work:
        count += sum(len(emission.token_ids) for emission in engine.step())
    print(backend, count, set(engine.implementations.values()))
"""


def test_backend_torch_runs_and_backend_triton_is_refused_in_a_sentence() -> None:
    torch_line, triton_line = told(_ENGINE).splitlines()
    assert torch_line == "torch 4 {'torch'}"
    assert triton_line == (
        "triton refused: backend 'triton' needs Triton, which is not installed; it exists on "
        "Linux: pip install -c constraints.txt triton. Backend 'torch' runs without it"
    )
