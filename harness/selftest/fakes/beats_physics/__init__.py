"""Claims work that no device does in the time it takes (karpathy/llm.c#851)."""

from dataclasses import replace

from harness.selftest.technique import fake

TECHNIQUE = fake(
    "beats_physics",
    "Faster than physics allows",
    cost=lambda so_far: replace(so_far, flops=so_far.flops * 1e7),
)
