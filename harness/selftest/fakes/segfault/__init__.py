"""Reads memory that is not its own."""

from harness.selftest.technique import fake

TECHNIQUE = fake("segfault", "A segmentation fault", engine=True)
