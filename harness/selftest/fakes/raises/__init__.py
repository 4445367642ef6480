"""Raises an exception."""

from harness.selftest.technique import fake

TECHNIQUE = fake("raises", "An exception", engine=True)
