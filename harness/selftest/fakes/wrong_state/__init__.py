"""Holds twice the state that the architecture declares."""

from harness.selftest.technique import fake

TECHNIQUE = fake("wrong_state", "State that the formula does not know", engine=True)
