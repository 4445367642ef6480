"""Finishes without a token once nobody looks: "completed" requests of zero time."""

from harness.selftest.technique import fake

TECHNIQUE = fake("no_tokens", "No token at all", engine=True)
