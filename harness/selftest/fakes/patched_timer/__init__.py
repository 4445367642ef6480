"""Slows the clock that Python code reads (gpu-mode/reference-kernels#162)."""

from harness.selftest.technique import fake

TECHNIQUE = fake("patched_timer", "A patched timer", engine=True)
