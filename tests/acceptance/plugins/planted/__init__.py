"""The static scheduler with planted work: every step computes 3 % longer."""

from harness.selftest.technique import fake

TECHNIQUE = fake("planted", "A slowdown that is known", engine=True)
