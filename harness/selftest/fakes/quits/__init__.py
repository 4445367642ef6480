"""Ends its process as if all were well."""

from harness.selftest.technique import fake

TECHNIQUE = fake("quits", "A silent exit", engine=True)
