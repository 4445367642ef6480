"""Plan, order, resume and execute a suite.

    outcome = run_sweep(order, detect(), url=None, progress=progress, interruption=interruption)

One run is one case in one process. A `Turn` is a planned run, `History` what is finished; the
loop is `run.py`, what surrounds it (lock, store, ceilings) is `session.py`.
"""

from harness.sweep.outcome import Outcome
from harness.sweep.session import Order, run_sweep

__all__ = ["Order", "Outcome", "run_sweep"]
