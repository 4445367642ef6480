"""Does nothing for longer than a run may take."""

from harness.selftest.technique import fake

TECHNIQUE = fake("hangs", "A hang", engine=True)
