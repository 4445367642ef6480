"""This engine against transformers' `generate`: the same weights, tokens per CPU-second.

    python tests/acceptance/engine_speed.py [--pairs 10] [--model zoo/small-mha] [--batch 1 8 32]

Greedy, float32, one thread, 64 + 64 tokens, distinct prompts, end of sequence ignored. A process
runs one side; a pair is one of each, in ABBA order; a ratio's interval is over pairs. Where tokens
differ, both sides must pass the regret gate, since a tie may fall either way. The last line of
stdout is one JSON document. Exit code 1 when a goal is missed or an answer is wrong.

CPU time, not wall time: other programs on the machine take the latter, hardly the former.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from harness import stack as stacks
from harness.analysis.intervals import Interval, geometric_mean
from harness.engine.build import build
from harness.engine.request import Request
from harness.gates import reference
from harness.gates.regret import check_regret
from harness.model import source as models
from harness.model import weights
from harness.plan import EnginePlan

PROMPT_TOKENS = NEW_TOKENS = 64
SIDES = ("harness", "transformers")
# Ratios by batch that must hold.
REQUIRED = {1: 1.3, 8: 1.05, 32: 1.0}
GOALS = {1: 1.8, 8: 1.25, 32: 1.15}
_MIN_REPETITIONS = 3
_MIN_CPU_SECONDS = 2.0

Tokens = list[list[int]]


def main() -> int:
    """Run pairs, or one side of one when asked by the parent process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument(
        "--model", nargs="+", default=["zoo/small-mha", "zoo/small-gqa"], help="or: random"
    )
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(_run_side(arguments.side, arguments.model[0], arguments.batch)))
        return 0
    outcomes = []
    with TemporaryDirectory() as folder:
        for model in arguments.model:
            name = _write_random(Path(folder)) if model == "random" else model
            outcomes += _compare(model, name, arguments.batch, arguments.pairs)
    print(json.dumps(outcomes))
    return 0 if all(outcome["passed"] for outcome in outcomes) else 1


def _compare(title: str, model: str, batches: list[int], pairs: int) -> list[dict[str, Any]]:
    """One result a batch size, printed as it is known."""
    rates: dict[str, dict[int, list[float]]] = {side: {b: [] for b in batches} for side in SIDES}
    answers: dict[str, dict[int, Tokens]] = {}
    for pair in range(pairs):
        for side in SIDES if pair % 2 == 0 else SIDES[::-1]:
            answer = _start_side(side, model, batches)
            for batch in batches:
                count = batch * NEW_TOKENS
                rates[side][batch].append(count / answer[str(batch)]["cpu_seconds"])
            answers[side] = {b: answer[str(b)]["tokens"] for b in batches}
    print(
        f"\n{title}: float32, greedy, {PROMPT_TOKENS} + {NEW_TOKENS} tokens, one thread, "
        f"{pairs} pairs of processes, torch {torch.__version__}, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    print("batch  harness tok/CPU-s  transformers tok/CPU-s  ratio (95 % interval)  tokens")
    return [
        _outcome(title, model, batch, {side: rates[side][batch] for side in SIDES},
                 {side: answers[side][batch] for side in SIDES})
        for batch in batches
    ]  # fmt: skip


def _outcome(
    title: str,
    model: str,
    batch: int,
    rates: dict[str, list[float]],
    tokens: dict[str, Tokens],
) -> dict[str, Any]:
    ratios = [a / b for a, b in zip(*(rates[side] for side in SIDES), strict=True)]
    # One pair has no interval.
    interval = geometric_mean(ratios) if len(ratios) > 1 else Interval(ratios[0], *[ratios[0]] * 2)
    equal = sum(a == b for a, b in zip(*tokens.values(), strict=True))
    right = equal == batch or all(_within_regret(model, tokens[side]) for side in SIDES)
    print(
        f"{batch:5}  {median(rates['harness']):17.0f}  {median(rates['transformers']):22.0f}  "
        f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})    "
        f"{equal} of {batch} rows equal{'' if right else ', WRONG BY REGRET'}"
    )
    return {
        "model": title,
        "batch": batch,
        "rates": rates,
        "ratio": interval.value,
        "low": interval.low,
        "high": interval.high,
        "required": REQUIRED.get(batch),
        "goal": GOALS.get(batch),
        "rows_equal": equal,
        "passed": right and interval.value >= REQUIRED.get(batch, 0.0),
    }


def _start_side(side: str, model: str, batches: list[int]) -> dict[str, Any]:
    """One process of one side: its seconds and tokens by batch size."""
    command = [sys.executable, "-P", __file__, "--side", side, "--model", model, "--batch"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *map(str, batches)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the process of {side} failed:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _run_side(side: str, model: str, batches: list[int]) -> dict[int, dict[str, Any]]:
    torch.set_num_threads(1)
    found = {}
    for batch in batches:
        prompts = _prompts(model, batch)
        generate = _ours(model, prompts) if side == "harness" else _theirs(model, prompts)
        tokens = generate()
        assert all(len(row) == NEW_TOKENS for row in tokens)
        seconds: list[float] = []
        while len(seconds) < _MIN_REPETITIONS or sum(seconds) < _MIN_CPU_SECONDS:
            began = time.process_time()
            again = generate()
            seconds.append(time.process_time() - began)
            assert again == tokens, "two runs gave other tokens"
        found[batch] = {"cpu_seconds": median(seconds), "tokens": tokens}
    return found


def _prompts(model: str, batch: int) -> Tokens:
    vocab = models.find(model, []).shape.vocab
    generator = torch.Generator().manual_seed(batch)
    prompts: Tokens = torch.randint(2, vocab, (batch, PROMPT_TOKENS), generator=generator).tolist()
    return prompts


def _plan(model: str, batch: int) -> tuple[models.ModelSource, Any, EnginePlan]:
    source = models.find(model, [])
    multi = source.shape.kv_heads == source.shape.heads
    stack = stacks.parse("mha" if multi else "gqa")
    plan = stacks.resolve(
        stack, source, dtype="float32", backend="torch", slots=batch,
        max_tokens=PROMPT_TOKENS + NEW_TOKENS,
    )  # fmt: skip
    return source, stack, plan


def _ours(model: str, prompts: Tokens) -> Callable[[], Tokens]:
    source, _, plan = _plan(model, len(prompts))
    engine = build(plan, source)

    def generate() -> Tokens:
        engine.reset()
        for i, prompt in enumerate(prompts):
            engine.submit(Request(i, tuple(prompt), NEW_TOKENS))
        tokens: Tokens = [[] for _ in prompts]
        while engine.has_work:
            for emission in engine.step():
                tokens[emission.request_id] += emission.token_ids
        return tokens

    return generate


def _theirs(model: str, prompts: Tokens) -> Callable[[], Tokens]:
    warnings.simplefilter("ignore")
    from transformers import GenerationConfig, LlamaForCausalLM

    folder = models.find(model, []).folder
    loaded = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    # Nothing of the checkpoint's own settings: no end token, no sampling.
    loaded.generation_config = GenerationConfig(
        do_sample=False, max_new_tokens=NEW_TOKENS, pad_token_id=0, use_cache=True
    )
    inputs = torch.tensor(prompts)
    attended = torch.ones_like(inputs)

    def generate() -> Tokens:
        with torch.inference_mode():
            whole = loaded.generate(inputs, attention_mask=attended)
        new: Tokens = whole[:, PROMPT_TOKENS:].tolist()
        return new

    return generate


def _within_regret(model: str, tokens: Tokens) -> bool:
    source, stack, plan = _plan(model, 1)
    loaded = weights.load(source, plan.shape, torch.float32, "cpu")
    for prompt, emitted in zip(_prompts(model, len(tokens)), tokens, strict=True):
        judged = reference.judge(stack, plan, loaded, prompt, emitted)
        results = check_regret(judged.exact, judged.trusted, emitted, torch.float32)
        if not all(result.passed for result in results):
            return False
    return True


def _write_random(folder: Path) -> str:
    """A checkpoint of the trained models' size with random weights; the folder's path."""
    warnings.simplefilter("ignore")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=1024,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=5,
            num_attention_heads=8,
            num_key_value_heads=8,
            max_position_embeddings=2048,
            # Loud enough for the tokens to vary.
            initializer_range=0.06,
        )
    ).save_pretrained(folder)
    return str(folder)


if __name__ == "__main__":
    sys.exit(main())
