"""What pairs say where cases differ in noise: false alarms, coverage of intervals, power.

    python tests/acceptance/paired_noise.py [--times 1000]

Whole families of rows in which nothing changed go through the judge: of 12 to 100 cases, 3 to 16
pairs each, whose noise is equal, spread over a factor of 4 or of 10, or larger in a few of them.
Each direction may alarm in 1 % of the families, both in 2 %. Ends with 1 where all together exceed
that, or where a 95 % interval of 5, 10 or 20 pairs does not hold the truth in 93 to 97 %.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable

from harness.analysis.judge import Evidence, judge

SD = 0.014
FAMILIES, PAIRS = (12, 16, 30, 100), (3, 4, 5, 6, 8, 16)
Noise = Callable[[random.Random, int], list[float]]


def _spread(factor: float) -> Noise:
    half = math.sqrt(factor)
    return lambda source, n: [SD * half ** source.uniform(-1, 1) for _ in range(n)]


def _some(share: Callable[[int], int], factor: float) -> Noise:
    return lambda _, n: [SD] * (n - share(n)) + [SD * factor] * share(n)


NOISES: dict[str, Noise] = {
    "equal": lambda _, n: [SD] * n,
    "factor 4": _spread(4),
    "factor 10": _spread(10),
    "one x10": _some(lambda _: 1, 10),
    "two x5": _some(lambda _: 2, 5),
    "1/4 x5": _some(lambda n: n // 4, 5),
    "1/2 x3.5": _some(lambda n: n // 2, 3.5),
}
# A change that as many pairs should find in a case of the usual noise.
PLANTED = {3: 0.15, 4: 0.10, 5: 0.08, 6: 0.06, 8: 0.05, 16: 0.03}


def _family(source: random.Random, cases: int, pairs: int, noise: Noise) -> list[Evidence]:
    return [
        Evidence("tpot", tuple(source.gauss(0, sd) for _ in range(pairs)))
        for sd in noise(source, cases)
    ]


def _alarms(cases: int, pairs: int, name: str, times: int) -> int:
    source = random.Random(f"{cases}/{pairs}/{name}")
    return sum(
        any(
            ruling.verdict in ("regressed", "improved")
            for ruling in judge(_family(source, cases, pairs, NOISES[name]))
        )
        for _ in range(times)
    )


def _power(cases: int, pairs: int, name: str, times: int) -> float:
    source, found = random.Random(f"{cases}/{pairs}/{name}/planted"), 0
    for _ in range(times):
        rows = _family(source, cases, pairs, NOISES[name])
        logs = tuple(v - math.log1p(PLANTED[pairs]) for v in rows[0].logs)
        found += judge([Evidence("tpot", logs), *rows[1:]])[0].verdict == "regressed"
    return found / times


def _coverage(pairs: int, times: int) -> float:
    source, inside = random.Random(pairs), 0
    for _ in range(times):
        truth, sd = math.log(source.uniform(0.5, 2)), source.uniform(0.005, 0.03)
        logs = tuple(source.gauss(truth, sd) for _ in range(pairs))
        (ruling,) = judge([Evidence("tpot", logs)])
        inside += (ruling.low or 0) <= math.exp(truth) <= (ruling.high or 0)
    return inside / times


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=1000)
    times = parser.parse_args().times
    covered = {pairs: _coverage(pairs, times) for pairs in (5, 10, 20)}
    for pairs, share in covered.items():
        print(f"{pairs} pairs: {share:.1%} of 95 % intervals hold the true ratio")
    print("\nfamilies of nothing with an alarm, in %; then power for a change of the size named")
    print(f"{'pairs':>6}{'cases':>6}" + "".join(f"{n:>11}" for n in NOISES) + f"{'found':>16}")
    alarms = families = 0
    for pairs in PAIRS:
        for cases in FAMILIES:
            counts = [_alarms(cases, pairs, name, times) for name in NOISES]
            alarms, families = alarms + sum(counts), families + times * len(NOISES)
            power = _power(cases, pairs, "factor 4", max(times // 5, 1))
            print(
                f"{pairs:>6}{cases:>6}" + "".join(f"{100 * n / times:>11.1f}" for n in counts)
                + f"{power:>8.2f} of {PLANTED[pairs]:>4.0%}",
                flush=True,
            )  # fmt: skip
    print(f"\n{alarms / families:.2%} of all families alarm")
    good = alarms / families <= 0.02 and all(0.93 <= share <= 0.97 for share in covered.values())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
