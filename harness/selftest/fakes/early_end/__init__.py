"""Stops before the asked number of tokens once nobody looks (sglang#10746)."""

from harness.selftest.technique import fake

TECHNIQUE = fake("early_end", "An early end of sequence", engine=True)
