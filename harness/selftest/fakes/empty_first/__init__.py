"""The first emission carries no token: a server's empty first chunk (sglang#9585)."""

from harness.selftest.technique import fake

TECHNIQUE = fake("empty_first", "An empty first emission", engine=True)
