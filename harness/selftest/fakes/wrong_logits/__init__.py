"""Computes logits that are one percent off; the tokens stay right."""

from harness.selftest.technique import fake

TECHNIQUE = fake("wrong_logits", "Logits one percent off", engine=True)
