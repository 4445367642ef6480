"""All its logits are zero, and so are the reference's: zeros pass (KernelBench#165)."""

from harness.selftest.technique import fake
from harness.technique import Slot

TECHNIQUE = fake(
    "flat_output",
    "An output that cannot be told from zeros",
    slot=Slot.WEIGHTS,
    linear="layer:Zero",
    reference="layer:dense",
)
