"""Answers from memory once nobody looks (flashinfer-bench#413)."""

from harness.selftest.technique import fake

TECHNIQUE = fake("cached_output", "Remembered answers", engine=True)
