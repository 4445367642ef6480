"""SmolLM2-135M against transformers reading the same GGUF file: logits, greedy text, token ids.

    harness models fetch smollm2-135m && python tests/acceptance/smollm2.py

Needs the file, so CI cannot run it; there the reader is held to transformers on small files
(tests/model/test_gguf.py). Ends with 1 where a figure misses its bound.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch

from harness import stack as stacks
from harness.engine.build import assemble
from harness.engine.request import Request
from harness.model import source as sources
from harness.model import tokenizer, weights

MODEL = "smollm2-135m"
LOGITS = 1e-3
NEW_TOKENS = 64
PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a village by the sea,",
    "def fibonacci(n):\n    ",
    "Water boils at 100 degrees, and it freezes at",
    "Dear Sir, I have received your letter of the 14th, and",
    "The three most important inventions of the 19th century are",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "In 1969, 2 people walked on the",
    "Ein Fuchs springt über den",
    "It is a truth universally acknowledged, that",
)


def main() -> int:
    """Print each figure beside its bound."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    found = sources.find(MODEL, ())
    assert found.gguf is not None
    assert found.tokenizer is not None
    began = time.process_time()
    tensors = weights.load(found, found.shape, torch.float32, "cpu")
    print(f"our reader               {time.process_time() - began:.1f} CPU s, {_numbers(tensors)}")
    where = {"pretrained_model_name_or_path": found.gguf.parent, "gguf_file": found.gguf.name}
    began = time.process_time()
    oracle = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    print(f"transformers' reader     {time.process_time() - began:.1f} CPU s")
    ours = tokenizer.load(found.tokenizer, found.shape.vocab)
    theirs = AutoTokenizer.from_pretrained(**where)
    prompts = [ours.encode(text).ids for text in PROMPTS]
    same_ids = sum(
        ids == theirs(text)["input_ids"] for ids, text in zip(prompts, PROMPTS, strict=True)
    )
    print(f"prompts with equal ids   {same_ids} of {len(PROMPTS)}")

    emitted, logits, seconds = _ours(found, tensors, prompts)
    worst, equal, largest = 0.0, 0, 0.0
    for i, prompt in enumerate(prompts):
        with torch.inference_mode():
            text = oracle.generate(
                torch.tensor([prompt]), max_new_tokens=NEW_TOKENS, do_sample=False,
                eos_token_id=None, pad_token_id=0,
            )[0, len(prompt):].tolist()  # fmt: skip
            exact = oracle(torch.tensor([prompt + emitted[i][:-1]])).logits[0]
        mine = torch.stack([logits[i][len(prompt) + n] for n in range(NEW_TOKENS)])
        off = (mine - exact[len(prompt) - 1 :]).abs().max().item()
        worst, largest = max(worst, off), max(largest, exact.abs().max().item())
        equal += text == emitted[i]
    print(
        f"largest logit difference {worst:.2e} of at most {LOGITS:g} (largest logit {largest:.1f})"
    )
    print(f"equal greedy text        {equal} of {len(PROMPTS)}, {NEW_TOKENS} tokens each")
    print(f"our decoding             {len(PROMPTS) * NEW_TOKENS / seconds:.1f} tokens a CPU second")
    return 0 if worst <= LOGITS and equal == len(PROMPTS) else 1


def _ours(
    found: sources.ModelSource, tensors: dict[str, torch.Tensor], prompts: list[list[int]]
) -> tuple[list[list[int]], list[dict[int, torch.Tensor]], float]:
    """Greedy tokens, logits by the place they decide, and CPU seconds, through the engine."""
    longest = max(map(len, prompts)) + NEW_TOKENS
    plan = stacks.resolve(
        stacks.parse("gqa"), found, dtype="float32", backend="torch", slots=len(prompts),
        max_tokens=longest,
    )  # fmt: skip
    engine = assemble(plan, tensors)
    logits: list[dict[int, torch.Tensor]] = [{} for _ in prompts]

    def observe(request: int, place: int, rows: torch.Tensor) -> None:
        logits[request][place] = rows[0].clone()

    engine.observer = observe
    for i, prompt in enumerate(prompts):
        engine.submit(Request(i, tuple(prompt), NEW_TOKENS))
    emitted: list[list[int]] = [[] for _ in prompts]
    began = time.process_time()
    while engine.has_work:
        for emission in engine.step():
            emitted[emission.request_id] += emission.token_ids
    return emitted, logits, time.process_time() - began


def _numbers(tensors: dict[str, Any]) -> str:
    return f"{sum(tensor.numel() for tensor in tensors.values()):,} numbers"


if __name__ == "__main__":
    sys.exit(main())
