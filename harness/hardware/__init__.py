"""Detection, calibration and the physical floor of a case."""
