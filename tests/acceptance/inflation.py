"""Enlarged models at their full size: divergence from the source, zero blocks, bytes, decode time.

    python tests/acceptance/inflation.py inflated-30m inflated-300m inflated-800m inflated-8b

Every tensor of the large shape is drawn, looked at and used; where all of them do not fit into the
memory they are drawn one after the other, in the forward itself. What fits is then run by the
engine; of what does not, a cut of one layer and one of two are, and a layer is their difference.
Divergence is over held-out text, which the source knows, and over random ids, which it does not.
Takes some 12 CPU-minutes for all four; ends with 1 where a figure misses its bound.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

from harness import stack as stacks
from harness.engine.build import assemble
from harness.engine.request import Request
from harness.model import inflate, source, tokenizer, weights
from harness.model.layout import tensors
from harness.model.presets import INFLATED
from harness.model.source import ModelSource
from harness.shape import DTypeName, ModelShape
from harness.zoo import corpus

TEXT_TOKENS, RANDOM_TOKENS = 192, 64
PROMPT_TOKENS, NEW_TOKENS = 32, 24
BLOCK = 8  # side of the blocks that structured sparsity would skip
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass
class Seen:
    """What passed by while tensors were drawn."""

    wanted: dict[str, tuple[int, ...]]
    names: set[str] = field(default_factory=set)
    bytes: int = 0
    zero_blocks: int = 0

    def look(self, name: str, tensor: Tensor) -> Tensor:
        """Count a tensor's bytes and zero blocks, once."""
        assert tuple(tensor.shape) == self.wanted[name], name
        if name not in self.names:
            self.names.add(name)
            self.bytes += tensor.numel() * tensor.element_size()
            self.zero_blocks += zero_blocks(tensor)
        return tensor


def zero_blocks(tensor: Tensor) -> int:
    """Blocks of 8 x 8 numbers, or of 8 of a vector, without one that is not zero."""
    grid = tensor[None] if tensor.ndim == 1 else tensor
    kernel = (min(BLOCK, len(grid)), BLOCK)
    filled = functional.max_pool2d((grid != 0).float()[None, None], kernel, kernel, ceil_mode=True)
    return int((filled == 0).sum())


def ids(base: ModelSource) -> tuple[Tensor, int]:
    """Held-out text, then random ids; and how many of them are text."""
    assert base.tokenizer is not None
    loaded = tokenizer.load(base.tokenizer, base.shape.vocab)
    text = loaded.encode(corpus.read()[0].held_out[:4000], add_special_tokens=False).ids
    drawn = torch.randint(
        base.shape.vocab, (RANDOM_TOKENS,), generator=torch.Generator().manual_seed(5)
    )
    return torch.cat([torch.tensor(text[:TEXT_TOKENS]), drawn]), TEXT_TOKENS


def free_bytes() -> int:
    """Memory that is available."""
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        found = next(line for line in lines if line.startswith("MemAvailable"))
    return int(found.split()[1]) * 1024


def decode_ms(
    shape: ModelShape, loaded: dict[str, Tensor], prompt: list[int], dtype: DTypeName
) -> tuple[float, int, list[int]]:
    """Median CPU-milliseconds a token on one thread, bytes of the weights, and the greedy text."""
    found = ModelSource("cut", "random", shape)
    tokens = len(prompt) + NEW_TOKENS
    plan = stacks.resolve(
        stacks.completed(stacks.parse("dense"), found),
        found, dtype=dtype, backend="torch", slots=1, max_tokens=tokens,
    )  # fmt: skip
    engine = assemble(plan, loaded)
    engine.submit(Request(0, tuple(prompt), NEW_TOKENS))
    steps, text = [], []
    with torch.inference_mode():
        while engine.has_work:
            began = time.process_time()
            emitted = engine.step()
            steps.append(time.process_time() - began)
            text += [token for each in emitted for token in each.token_ids]
    # The first step is the prompt's, the second may still be warming up.
    return 1000 * median(steps[2:]), engine.memory().weights_bytes, text


def check(name: str, dtype: DTypeName) -> bool:
    """Print the figures of one enlarged model; whether all are within their bounds."""
    found, torch_dtype = source.find(name, ()), DTYPES[dtype]
    base, recipe = found.base, found.inflation
    assert base is not None
    assert recipe is not None
    small = weights.load(base, base.shape, torch.float32, "cpu")
    sizes = tensors(found.shape)
    numbers = sum(math.prod(size) for size in sizes.values())
    whole = numbers * torch_dtype.itemsize
    fits = 2 * whole < free_bytes()
    shape = found.shape
    print(
        f"{name} from {recipe.source}, {dtype}: L {shape.layers}, D {shape.width}, F {shape.ff}, "
        f"N {shape.heads}, K {shape.kv_heads}, {numbers / 1e6:,.1f} M parameters, "
        f"{'held whole' if fits else 'drawn tensor by tensor'}",
        flush=True,
    )
    seen, enlarged = Seen(sizes), inflate.enlarger(recipe, small, base.shape, sizes)
    held: dict[str, Tensor] = {}

    def get(tensor_name: str) -> Tensor:
        if tensor_name in held:
            return held[tensor_name]
        tensor = seen.look(tensor_name, enlarged(tensor_name).to(torch_dtype))
        if fits:
            held[tensor_name] = tensor
        return tensor

    tokens, text = ids(base)
    began = time.process_time()
    apart = divergences(base, small, shape, get, tokens, torch_dtype)
    spent = time.process_time() - began
    on_text, on_random = apart[:text].mean().item(), apart[text:].mean().item()
    right = [
        told("KL on text", on_text <= inflate.MOST_DIVERGENCE,
             f"{on_text:.2g} nats a token, worst {apart[:text].max().item():.2g} "
             f"(bound {inflate.MOST_DIVERGENCE:g}), {text} tokens, {spent:.0f} CPU-s"),
        told("KL on random ids", on_random <= inflate.MOST_DIVERGENCE,
             f"{on_random:.2g} nats a token (bound {inflate.MOST_DIVERGENCE:g})"),
        told("every tensor seen", seen.names == set(sizes), f"{len(seen.names)} of {len(sizes)}"),
        told("zero blocks", seen.zero_blocks == 0, f"{seen.zero_blocks} of {BLOCK} x {BLOCK}"),
        told("weight bytes", seen.bytes == whole, f"{seen.bytes:,} drawn, {whole:,} by the shape"),
    ]  # fmt: skip
    prompt = tokens[:PROMPT_TOKENS].tolist()
    rounded = {key: tensor.to(torch_dtype) for key, tensor in small.items()}
    small_ms, small_bytes, small_text = decode_ms(base.shape, rounded, prompt, dtype)
    if fits:
        ms, run_bytes, large_text = decode_ms(shape, held, prompt, dtype)
        same = sum(a == b for a, b in zip(small_text, large_text, strict=True))
        right.append(told("bytes in the engine", run_bytes == whole, f"{run_bytes:,}"))
        how = f"the engine's; greedy text equal in {same} of {NEW_TOKENS} tokens"
    else:
        one, two = (decode_ms(*cut(shape, get, layers), prompt, dtype)[0] for layers in (1, 2))
        layer = two - one
        ms = one + layer * (shape.layers - 1)
        how = (
            f"by cuts of 1 layer, {one:.1f} ms, and 2, {two:.1f} ms, so {layer:.1f} ms a layer of "
            f"{whole * 1e-6 / shape.layers:,.0f} MB; never run whole here"
        )
    of_source = f"{small_ms:.2f} ms a token of the source ({small_bytes / 1e6:.1f} MB)"
    told(
        "decode",
        True,
        f"{of_source}, {ms:,.1f} ms of the large shape ({whole / 1e6:,.0f} MB), {how}",
    )
    return all(right)


def divergences(
    base: ModelSource,
    small: dict[str, Tensor],
    shape: ModelShape,
    get: Callable[[str], Tensor],
    tokens: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """KL(source || enlarged) of each token, [T], both rounded to the dtype."""
    exact = inflate.logits(base.shape, lambda name: small[name].to(dtype), tokens)
    found = inflate.logits(shape, get, tokens)
    p, q = exact.double().log_softmax(-1), found.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def cut(
    shape: ModelShape, get: Callable[[str], Tensor], layers: int
) -> tuple[ModelShape, dict[str, Tensor]]:
    """The first layers of a model, with its embedding and norm."""
    few = replace(shape, layers=layers)
    return few, {name: get(name) for name in tensors(few)}


def told(what: str, right: bool, figure: str) -> bool:
    """Print one figure, and give back whether it is within its bound."""
    print(f"  {what:<21}{figure}{'' if right else '   MISSED'}", flush=True)
    return right


def main() -> int:
    """Check the models that are named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(INFLATED)}; all by default")
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="float32")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in INFLATED]:
        parser.error(f"no enlarged model is called {unknown[0]}; there are {', '.join(INFLATED)}")
    torch.set_num_threads(1)
    right = [check(name, arguments.dtype) for name in arguments.names or INFLATED]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
