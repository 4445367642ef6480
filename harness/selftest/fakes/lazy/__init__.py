"""Emits what is worked out when it is read, which is after the clock was."""

from harness.selftest.technique import fake

TECHNIQUE = fake("lazy", "Tokens worked out after the stamp", engine=True)
