"""Its reference is NaN, so that nothing can be compared (flashinfer-bench's error statistics)."""

from harness.selftest.technique import fake
from harness.technique import Slot

TECHNIQUE = fake(
    "nan_reference", "A reference of NaN", slot=Slot.WEIGHTS, reference="reference:dense"
)
