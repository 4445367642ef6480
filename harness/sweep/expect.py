"""What each case is expected to take, before anything was measured: memory and seconds a run.

Crude, and only for planning: the dry run, the time left, the budget, and to spare a process that
would certainly run out of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.hardware.ceilings import Ceilings
from harness.hardware.estimate import KERNEL_INPUT_BYTES, kernel_cost, of_case
from harness.measure.sampling import FEWEST_REPETITIONS, WARM_UP_SHARE
from harness.suite import Planned
from harness.suite.case import Case, MeasureSettings
from harness.suite.points import GeneratePoint, KernelPoint

# To start Python, import torch and build a small model; seen: 3 s idle, 6 s on a busy machine.
START_S = 4.0
# To compile one peer for one shape with inductor, on a GPU's host.
COMPILE_S = 10.0
COMPILED = ("flex", "compiled")
# Besides the timed repetitions a run makes one that is watched, whose work the references compute
# again in float64, up to a bound and without a cache: seen, one or two repetitions' time.
WATCHED_REPETITIONS = 3.0
# Until two in a row agree; seen, two or three.
WARM_UPS = 3.0


@dataclass(frozen=True)
class Expected:
    """One run of one case. `seconds` is None where the device's limits are unknown."""

    peak_bytes: int
    seconds: float | None


def expect(
    planned: Iterable[Planned],
    measure: MeasureSettings,
    device: str,
    ceilings: Mapping[int, Ceilings],
) -> dict[str, Expected]:
    """By case hash, what a run of each case that can run is expected to take.

    Args:
        planned: the cases with their plans.
        measure: how long a run measures.
        device: "cpu" or "cuda".
        ceilings: by threads.
    """
    expected: dict[str, Expected] = {}
    for entry in planned:
        case = entry.case
        if isinstance(case.workload, KernelPoint):
            # Several sets of inputs lie side by side, and the references take copies in float64.
            held = 4.0 * kernel_cost(case.workload, case.dtype).bytes + KERNEL_INPUT_BYTES
            compiled = COMPILE_S * len({*case.workload.peers} & {*COMPILED})
            whole_s = START_S + 2 * measure.max_seconds + compiled
            expected[case.hash] = Expected(round(held), whole_s)
        # A kind that nothing is known about is planned without an expectation.
        if entry.plan is None or not isinstance(case.workload, GeneratePoint):
            continue
        limits = ceilings.get(case.threads)
        estimate = of_case(entry.plan, case.composed, case.workload, limits)
        peak_bytes = estimate.peak_bytes
        if device == "cpu":
            # The references keep a copy of the weights of their own, always in main memory.
            peak_bytes += estimate.weights_bytes
        repetition_s = estimate.seconds_per_repetition
        seconds = None if repetition_s is None else run_seconds(case, measure, repetition_s)
        expected[case.hash] = Expected(peak_bytes, seconds)
    return expected


def run_seconds(case: Case, measure: MeasureSettings, repetition_s: float) -> float:
    """Seconds of one run whose repetitions take `repetition_s`, if it stops as early as it may.

    An expensive case is warmed up once: more has to fit into its share of the measuring time.
    """
    steps = max(1, case.generated.new_tokens - 1)
    fitting = WARM_UP_SHARE * measure.max_seconds / max(repetition_s, 1e-9)
    warming = min(WARM_UPS, max(1.0, fitting))
    repetitions = max(FEWEST_REPETITIONS, -(-measure.min_samples // steps))
    timed_s = max(repetition_s, min(measure.max_seconds, repetitions * repetition_s))
    return START_S + (WATCHED_REPETITIONS + warming) * repetition_s + timed_s
