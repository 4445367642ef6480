"""What a measurement ran on: detection, environment, revision, ceilings and estimates.

Nothing here imports torch at module level. `harness.hardware.estimate` is imported by name, since
it needs stacks.
"""

from harness.hardware.calibration import calibrate
from harness.hardware.ceilings import Ceilings
from harness.hardware.detection import detect
from harness.hardware.environment import environment
from harness.hardware.identity import EnvironmentRow, HardwareRow, RevisionRow
from harness.hardware.revision import revision

__all__ = [
    "Ceilings",
    "EnvironmentRow",
    "HardwareRow",
    "RevisionRow",
    "calibrate",
    "detect",
    "environment",
    "revision",
]
