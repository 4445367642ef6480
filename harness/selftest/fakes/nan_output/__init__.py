"""One of its numbers is NaN; the tokens stay right."""

from harness.selftest.technique import fake

TECHNIQUE = fake("nan_output", "A NaN in the output", engine=True)
