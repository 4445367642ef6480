"""Emits another last token than its logits say."""

from harness.selftest.technique import fake

TECHNIQUE = fake("wrong_output", "A wrong token", engine=True)
