"""Numbers that vary while an engine runs do not recompile a kernel. Counted without a GPU.

Triton compiles a function anew for each integer that it specialises on: being 1, a multiple of 16,
or a constant. vllm-project/vllm-ascend#13637 met three compilations of seconds each in serving.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest
import torch

pytest.importorskip("triton", reason="Triton exists on Linux only")

from harness import registry
from harness.aot.units import specialised
from harness.errors import UnfitError
from harness.kernel import AotConfig, KernelSpec
from harness.launch import recording
from harness.target import TARGETS
from harness.technique import load

# Sequences, lengths, rows, blocks: what differs from step to step. Other letters are a model's.
VARYING = ("B", "S", "T", "n", "R")
# Forms of one function that one model may meet: a split or none, small tiles or large ones.
MOST_FORMS = 2
STEPS = 30
CAPACITY = 1024
NAMES = [name for name in registry.kernel_names() if registry.kernel(name).triton is not None]
HOPPER = TARGETS["sm_90"]


def steps(shape: Mapping[str, int], seed: int) -> Iterator[dict[str, int]]:
    """Shapes of the same model at other moments: ones, multiples of 16, and anything else."""
    chance = random.Random(seed)
    for step in range(STEPS):
        size = {
            name: chance.choice(
                [1, 16 * chance.randint(1, 16), chance.randint(1, 300), 1 + step, shape[name] or 1]
            )
            for name in VARYING
            if name in shape
        }
        if "S" in size:
            # Rows are among the tokens held.
            size["S"] += max(size.get("T", 0), shape.get("draft", 0))
        if shape.get("block") == 0:
            # A contiguous cache: the capacity of its slots is the engine's, and does not vary.
            size["block"] = CAPACITY
        yield {**shape, **size}


def forms(spec: KernelSpec, config: AotConfig) -> dict[str, set[str]]:
    """What each function of a kernel is compiled to over many steps, by the function's name."""
    dtype = getattr(torch, config.dtype)
    found: dict[str, set[str]] = defaultdict(set)
    for shape in steps(config.shape, seed=0):
        inputs = load(spec.inputs)(shape, dtype, torch.Generator(), "meta")
        with recording(HOPPER) as launches:
            load(spec.triton or "")(*inputs)
        for launch in launches:
            unit = specialised(spec.name, 0, HOPPER, launch)
            found[unit.name.function].add(unit.key)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_lengths_and_batches_do_not_recompile(name: str) -> None:
    spec = registry.kernel(name)
    for config in spec.aot:
        counts = {function: len(keys) for function, keys in forms(spec, config).items()}
        assert counts, "nothing is launched"
        assert max(counts.values()) <= MOST_FORMS, (dict(config.shape), counts)


def test_a_length_that_is_specialised_on_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counting has teeth: the same kernel without its `do_not_specialize` recompiles."""
    from harness.kernels.decode_attention import kernel

    for parameter in kernel._attend.params:
        monkeypatch.setattr(parameter, "do_not_specialize", False)
    spec = registry.kernel("decode_attention")
    assert len(forms(spec, spec.aot[0])["_attend"]) > MOST_FORMS


@pytest.mark.parametrize("name", NAMES)
def test_a_cpu_is_refused_with_what_to_do(name: str) -> None:
    spec = registry.kernel(name)
    inputs = load(spec.inputs)(spec.shapes["test"][0], torch.float32, torch.Generator())
    with pytest.raises(
        UnfitError, match=r"needs a GPU, and its input is on 'cpu'.*TRITON_INTERPRET=1"
    ):
        load(spec.triton or "")(*inputs)
