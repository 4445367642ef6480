"""Three tokens come out of a step, as from speculation (sglang#12064)."""

from harness.selftest.technique import fake

TECHNIQUE = fake("several_tokens", "Three tokens a step", engine=True, lookahead=2)
