"""Tokens are held back and come with the last step, so that the time between them looks short."""

from harness.selftest.technique import fake

TECHNIQUE = fake("burst", "Tokens held back until the last step", engine=True)
