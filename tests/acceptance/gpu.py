"""Everything that needs a GPU, for whenever one is at hand: tests, measurements, verdicts.

    python tests/acceptance/gpu.py --out FOLDER                   on a GPU, within 8 minutes
    python tests/acceptance/gpu.py --out FOLDER --profile cpu     the same path in small shapes

Parts, and what each is expected to take on an H100 or H200 with 16 cores (a bound, not a reading):

    tests      pytest -m gpu: all kernels in three dtypes, captured steps     170 s, then it is cut
    sweep      suites/gpu-acceptance.yaml, with the device's ceilings first   300 s, its budget
    verdicts   the targets of the kernels, read off the sweep                 seconds

FOLDER/gpu-acceptance.json holds the sweep whole: `harness db merge` takes it, results/published/
keeps it. Ends with 1 where a test, a gate or a target is red.

Where no package can be installed, `pip download --no-deps --only-binary=:all: -d wheels -r
requirements-carry.txt`, with `--python-version` and `--platform` of that machine, fetches what
torch and pytest do not bring; there `pip install --no-index --no-deps --target site
wheels/*.whl` and PYTHONPATH=site come before this script.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ("tests/kernels", "tests/engine/test_graphs_gpu.py")
TESTS_SECONDS = 170
# What the kernels are to reach, at the sizes of Llama-3-8B: shares of the rates measured here.
DECODE = {"B": 64, "S": 8192, "N": 32, "K": 8, "H": 128, "draft": 0, "int8": 0}
DECODE_BANDWIDTH = 0.85
PREFILL = {"B": 1, "S": 8192, "N": 32, "K": 8, "H": 128, "T": 0, "window": 0}
PREFILL_RATE = 0.45
ATTENTION = ("decode_attention", "prefill_attention")


def main() -> int:
    """Run the parts, print what each took, and answer with 0 or 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--budget", default="5m", help="of the sweep")
    parser.add_argument("--profile", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--part", choices=("tests", "sweep", "all"), default="all")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    red = []
    if given.part in ("tests", "all"):
        red += run("tests", tests(), environment, TESTS_SECONDS)
    if given.part in ("sweep", "all"):
        red += run("sweep", sweep(given.out, given.budget, given.profile), environment, None)
        red += verdicts(given.out / "gpu-acceptance.json", judged=given.profile == "cuda")
    print("\n".join(f"red: {what}" for what in red) or "green")
    return 1 if red else 0


def tests() -> list[str]:
    """The tests that need a device, on many processes: most of their time is Triton compiling."""
    workers = str(max(1, min(8, (os.cpu_count() or 2) // 2)))
    return [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-n", workers, "-W", "default",
            "-p", "no:cacheprovider", *TESTS]  # fmt: skip


def sweep(out: Path, budget: str, profile: str) -> list[str]:
    """The suite, into a database and a file of this folder."""
    return [sys.executable, "-m", "harness", "sweep", "gpu-acceptance", "--profile", profile,
            "--budget", budget, "--db", str(out / "gpu.db"),
            "--output", str(out / "gpu-acceptance.json")]  # fmt: skip


def run(
    name: str, command: Sequence[str], environment: Mapping[str, str], limit: float | None
) -> list[str]:
    """Run one part; what is red about it."""
    begun = time.monotonic()
    try:
        code = subprocess.run(command, cwd=ROOT, env=environment, timeout=limit).returncode
    except subprocess.TimeoutExpired:
        return [f"{name}: cut after {limit} s"]
    print(f"== {name}: exit code {code}, {time.monotonic() - begun:.0f} s", flush=True)
    return [f"{name}: exit code {code}"] if code else []


def verdicts(file: Path, *, judged: bool) -> list[str]:
    """Print a line a case, and hold the attention kernels to their targets where `judged`."""
    sys.path.insert(0, str(ROOT))
    from harness.analysis.results import results
    from harness.store.document import read
    from harness.store.rows import StoredRun
    from harness.suite.points import KernelPoint

    if not file.is_file():
        return ["verdicts: the sweep left no file"]
    runs = [run for whole in read(file).sweeps for run in whole.runs]
    found = results([StoredRun(i, run.case, run.record, run.source) for i, run in enumerate(runs)])
    red: list[str] = []
    unmeasured = {"decode_attention": DECODE, "prefill_attention": PREFILL} if judged else {}
    for result in found:
        shares = {name: result.value(name) for name in ("bandwidth_fraction", "matrix_fraction")}
        ratios = {
            name.removeprefix("speedup_"): (each.value, each.ci_low, each.ci_high)
            for name, each in result.metrics.items()
            if name.startswith("speedup_") and each.value is not None
        }
        print(f"{result.case.title}: {result.status} {told(shares, ratios)}")
        if judged:
            point = result.case.workload
            assert isinstance(point, KernelPoint), f"{result.case.title} is no kernel's case"
            missed = misses(point.kernel, point.sizes, shares, ratios)
            red += [f"{result.case.title}: {text}" for text in missed]
            if unmeasured.get(point.kernel, {"": 0}).items() <= point.sizes.items():
                del unmeasured[point.kernel]
    return red + [f"{kernel}: not measured at {at}" for kernel, at in unmeasured.items()]


Ratio = tuple[float, float | None, float | None]


def told(shares: Mapping[str, float | None], ratios: Mapping[str, Ratio]) -> str:
    """Shares and ratios on one line."""
    parts = [f"{name} {share:.3f}" for name, share in shares.items() if share is not None]
    for name, (value, low, high) in ratios.items():
        bounds = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
        parts.append(f"{name} {value:.3f}x{bounds}")
    return ", ".join(parts)


def misses(
    kernel: str,
    sizes: Mapping[str, int],
    shares: Mapping[str, float | None],
    ratios: Mapping[str, Ratio],
) -> Iterator[str]:
    """Which targets an attention kernel misses at these sizes; a number that is missing misses."""
    if kernel not in ATTENTION:
        return
    for of, at, share, least in (
        ("decode_attention", DECODE, "bandwidth_fraction", DECODE_BANDWIDTH),
        ("prefill_attention", PREFILL, "matrix_fraction", PREFILL_RATE),
    ):
        if kernel == of and at.items() <= sizes.items():
            value = shares.get(share)
            if value is None or not value >= least:
                yield f"{share} {value} is below {least}"
    if "flash" in ratios:
        value, _, high = ratios["flash"]
        # Slower beyond the noise of the pairs, or by itself where there is no interval.
        if not (value if high is None else high) >= 1.0:
            yield f"torch's flash backend takes {value:.3f} of its time"


if __name__ == "__main__":
    sys.exit(main())
