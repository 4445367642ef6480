"""Steps for ever and emits nothing."""

from harness.selftest.technique import fake

TECHNIQUE = fake("silent", "Steps without end", engine=True)
