"""What a fresh interleaved session makes of alerts on trials: it is played, as nothing is measured.

Both revisions, the night before the alert's place and the night of the alert, are run in pairs in
one session. A pair's two processes share whatever state the session finds the machine in (its
clock, its drift), so what is left of the trial's noise is that of two processes. A step that lies
between the two revisions shows; a clock that switched, or a drift, does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.analysis.evaluate.score import Alert, Alerts
from harness.analysis.evaluate.trials import Trial, generator
from harness.analysis.history.confirmation import PAIRS
from harness.analysis.judge import Evidence, judge


def confirmed(trials: Sequence[Trial], alerts: Alerts, seed: int) -> Alerts:
    """Those alerts that the session bears out; each trial's is a session of its own."""
    return [
        [alert for alert in said if _holds(trial, alert, seed)]
        for trial, said in zip(trials, alerts, strict=True)
    ]


def _holds(trial: Trial, alert: Alert, seed: int) -> bool:
    random = generator(seed, f"{trial.name}/session for night {alert.at} on {alert.found}")
    noise = trial.noise * random.standard_normal((PAIRS, 2))
    # The revisions compared: the last night before the suspected place, and the newest.
    between = trial.truth is not None and alert.begin <= trial.truth <= alert.found
    change = np.log1p(trial.step) if between else 0.0
    logs = noise[:, 0] - (noise[:, 1] + change)  # times better, so a slowdown is below zero
    (ruling,) = judge([Evidence("trial", tuple(float(v) for v in logs))])
    return ruling.verdict == "regressed"
