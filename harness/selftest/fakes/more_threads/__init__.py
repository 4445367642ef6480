"""Takes more threads than its row says."""

from harness.selftest.technique import fake

TECHNIQUE = fake("more_threads", "One thread more than allowed", engine=True)
