"""Apache Otava as a peer: in an environment of its own, as it pins numpy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from harness.analysis.evaluate.score import FIRST, Alert, Alerts, Detector, news
from harness.analysis.evaluate.trials import Trial
from harness.errors import UsageError

# Its defaults, and the strictest that still finds about half of the steps: name, p, least change.
SETTINGS = (
    ("Otava, p .001 (default)", 0.001, 0.0),
    ("Otava, p .00001, 1 %", 0.00001, 0.01),
)


def detectors(python: Path) -> dict[str, Callable[[], Detector]]:
    """The detector with each of its settings, run by that environment's Python."""
    return {name: _made(python, p, least) for name, p, least in SETTINGS}


def _made(python: Path, p: float, least: float) -> Callable[[], Detector]:
    return lambda: lambda trials: replay(python, trials, p, least)


def replay(python: Path, trials: Sequence[Trial], max_pvalue: float, magnitude: float) -> Alerts:
    """Its alerts on every prefix of the trials.

    Raises:
        UsageError: that Python does not run, or has no Otava.
    """
    job = {
        "series": [trial.values.tolist() for trial in trials],
        "first": FIRST,
        "settings": [[max_pvalue, magnitude]],
    }
    script = resources.files("harness.analysis.evaluate") / "otava_worker.py"
    with resources.as_file(script) as path:
        try:
            # -I: nothing of this environment is seen by that one.
            done = subprocess.run(
                [str(python), "-I", str(path)],
                input=json.dumps(job),
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise UsageError(f"--otava-python {python} does not run: {error.strerror}") from error
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise UsageError(f"--otava-python {python} could not run Otava: {last}")
    (answer,) = json.loads(done.stdout)
    return [news(Alert(night, at) for night, at in said) for said in answer]
