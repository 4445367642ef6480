"""Never writes its output, and is lucky about what lies there (KernelBench#82)."""

from harness.selftest.technique import fake

TECHNIQUE = fake("unwritten_output", "An output that is never written", engine=True)
