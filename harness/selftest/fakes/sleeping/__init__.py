"""Every step sleeps for a known time, so every latency is known."""

from harness.selftest.technique import fake

TECHNIQUE = fake("sleeping", "Known sleeps", engine=True)
