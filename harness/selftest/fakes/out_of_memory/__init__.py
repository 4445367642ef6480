"""Asks for more memory than there is."""

from harness.selftest.technique import fake

TECHNIQUE = fake("out_of_memory", "More memory than there is", engine=True)
