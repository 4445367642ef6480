"""How often quiet nights alarm, and how soon slowdowns are found: A/A and A/B of one configuration.

    python tests/acceptance/regress_nights.py [--nights 1000] [--months 100]

1,000 quiet nights of 200 cases, then months in which 3 % of the cases slow down by 3 %, at 1 %
between processes and as much between sessions. Reruns are sessions of their own. Ends with 1 where
more than 1 % of the quiet nights alarm, or fewer than 90 % of the slowdowns are found in 4 nights.
"""

from __future__ import annotations

import argparse
import sys
import time

from harness.analysis.evaluate.nightly import Setup, planted, quiet

MOST_ALARMS, LEAST_FOUND = 0.01, 0.9  # of the nights, and of the slowdowns


def main() -> int:
    """Simulate, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nights", type=int, default=1000)
    parser.add_argument("--months", type=int, default=100)
    asked = parser.parse_args()
    setup = Setup()
    print(setup)
    start = time.process_time()
    calm = quiet(setup, asked.nights)
    alarms = calm.alarm_nights / calm.nights
    print(
        f"A/A: {calm.alarm_nights} of {calm.nights} nights raised an alarm "
        f"({alarms:.2%}), {calm.false_alarms} alarms; "
        f"{calm.candidates / calm.nights:.1f} cases a night were run again",
        flush=True,
    )
    found = planted(setup, 0.03, 0.03, asked.months)
    shares = [n / found.planted for n in found.found]
    told = ", ".join(f"{share:.1%} by night {i}" for i, share in enumerate(shares, 1))
    print(
        f"A/B: of {found.planted} slowdowns {told}; {found.false_alarms} false alarms in "
        f"{found.nights} nights"
    )
    print(f"{time.process_time() - start:.0f} s of processor time")
    return 0 if alarms <= MOST_ALARMS and shares[-1] >= LEAST_FOUND else 1


if __name__ == "__main__":
    sys.exit(main())
