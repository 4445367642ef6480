"""How often quiet nights alarm, and how soon slowdowns are found: A/A and A/B of one configuration.

Run it as `python tests/acceptance/regress_nights.py [nights] [months]`: 1,000 quiet nights of 200
cases, then months in which 3 % of the cases slow down by 3 %, at 1 % between processes and as much
between sessions. Reruns are sessions of their own.
"""

import sys
import time

from harness.analysis.evaluate.nightly import Setup, planted, quiet


def main() -> None:
    """Simulate and print."""
    nights = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    months = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    setup = Setup()
    print(setup)
    start = time.process_time()
    calm = quiet(setup, nights)
    print(
        f"A/A: {calm.alarm_nights} of {calm.nights} nights raised an alarm "
        f"({calm.alarm_nights / calm.nights:.2%}), {calm.false_alarms} alarms; "
        f"{calm.candidates / calm.nights:.1f} cases a night were run again",
        flush=True,
    )
    found = planted(setup, 0.03, 0.03, months)
    shares = ", ".join(
        f"{n / found.planted:.1%} by night {i}" for i, n in enumerate(found.found, 1)
    )
    print(
        f"A/B: of {found.planted} slowdowns {shares}; {found.false_alarms} false alarms in "
        f"{found.nights} nights"
    )
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
