"""Measure this machine for predictions in a process of its own, and keep it with the hardware."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from harness.errors import InfrastructureError, UsageError
from harness.hardware.identity import HardwareRow
from harness.predict.efficiency import Local
from harness.predict.target import Target, by_calibration

_TIMEOUT_SECONDS = 300
# Where a hardware's row keeps them, beside the ceilings by threads.
_TYPICAL = "typical"


def measure(threads: int, dtypes: Sequence[str]) -> dict[str, Local]:
    """By dtype, what predictions for this processor need; InfrastructureError when it fails."""
    arguments = [str(threads), ",".join(dtypes)]
    command = [sys.executable, "-P", "-m", "harness.predict", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"calibrating took longer than {_TIMEOUT_SECONDS} s; is the machine busy? "
            "'harness doctor' tells"
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise InfrastructureError(f"calibrating failed: {last}")
    found = json.loads(done.stdout)
    return {dtype: Local.model_validate(values) for dtype, values in found.items()}


def with_local(hardware: HardwareRow, threads: int, measured: dict[str, Local]) -> HardwareRow:
    """The row with these measurements kept beside its ceilings; the latest replace older ones."""
    kept = dict(hardware.calibration or {})
    by_threads = dict(kept.get(_TYPICAL) or {})
    found = {dtype: local.model_dump(mode="json") for dtype, local in measured.items()}
    by_threads[str(threads)] = by_threads.get(str(threads), {}) | found
    return hardware.model_copy(update={"calibration": kept | {_TYPICAL: by_threads}})


def target(hardware: HardwareRow, threads: int) -> Target:
    """The machine at hand to predict for, by what its row keeps.

    UsageError where it was never calibrated for this number of threads, or by a harness that
    measured other things.
    """
    again = f"run 'harness calibrate --threads {threads}' on it, on a quiet machine"
    kept = ((hardware.calibration or {}).get(_TYPICAL) or {}).get(str(threads), {})
    if not kept:
        raise UsageError(f"{hardware.name} was not calibrated with {threads} thread(s); {again}")
    try:
        measured = {dtype: Local.model_validate(values) for dtype, values in kept.items()}
    except ValidationError:
        raise UsageError(
            f"the calibration of {hardware.name} is another version's; {again}"
        ) from None
    return by_calibration(hardware, measured)
