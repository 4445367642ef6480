"""A small suite as text, and a loader of its variants."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.suite import Suite, load

LoadText = Callable[..., Suite]

TEXT = """\
suite: small
about: A suite to change.
stacks: [mha, gqa, {name: chat, architecture: {gqa: {kv_heads: 2}}}]
baseline: mha
workload: {kind: generate, batch: [1, 8], prompt_tokens: [16, 32], new_tokens: 4}
dtype: float32
measure: {rounds: 2}
slo: chat
profiles:
  cpu: {model: tiny}
  cuda: {model: llama-3-8b, dtype: [bfloat16], workload: {batch: [64]}}
exclude: [{stack: gqa, batch: 8}]
include: [{stack: gqa, batch: 2, prompt_tokens: 16}]
"""


@pytest.fixture
def text() -> str:
    """The suite's YAML: 13 lines."""
    return TEXT


@pytest.fixture
def load_text(tmp_path: Path) -> LoadText:
    """load_text(old, new, ...) loads the suite with texts replaced; load_text(text=...) another."""

    def loaded(*changes: str, text: str = TEXT) -> Suite:
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new, 1)
        file = tmp_path / "small.yaml"
        file.write_text(text, encoding="utf-8")
        return load(file)

    return loaded
