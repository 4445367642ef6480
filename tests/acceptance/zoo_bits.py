"""Train a model of the zoo twice from its seed and compare the weights bit by bit.

    python tests/acceptance/zoo_bits.py [NAME] [--steps 300]
    python tests/acceptance/zoo_bits.py recall8-conv --committed

With `--committed` it trains once, to the end, and compares with the committed weights: they come
out again to the bit on a CPU of the kind the card names, with the same torch. Takes the CPU-seconds
that the card tells (half of them and twice for 300 of 600 steps). Exit code 1 where a bit differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from harness.zoo import card, corpus, export, network, publish, rows, train


def main() -> int:
    """Compare, and say how many weights differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="equal0-mha", choices=rows.names())
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--committed", action="store_true")
    arguments = parser.parse_args()
    entry = rows.get(arguments.name)
    with tempfile.TemporaryDirectory() as scratch:
        steps = entry.budget.steps if arguments.committed else arguments.steps
        first = _train(arguments.name, steps, Path(scratch) / "first.checkpoint")
        if arguments.committed:
            second = export.read(export.MODELS / entry.name, entry.architecture)
            export.write(Path(scratch) / "model", first, entry.storage, None)
            first = export.read(Path(scratch) / "model", entry.architecture)
            print(f"committed on {card.read_any(export.MODELS / entry.name).cpu}")
        else:
            second = _train(arguments.name, steps, Path(scratch) / "second.checkpoint")
    unlike = sum(
        int((one != other).sum())
        for one, other in zip(first.parameters(), second.parameters(), strict=True)
    )
    weights = sum(weight.numel() for weight in first.parameters())
    print(f"{entry.name}, {steps} steps: {unlike} of {weights:,} weights differ")
    return int(unlike > 0)


def _train(name: str, steps: int, path: Path) -> network.Network:
    entry = rows.get(name)
    result = train.train(entry, corpus.read(), publish.words(entry), path, stop=steps)
    print(f"{name}: {result.progress.step} steps in {result.progress.cpu_seconds:.0f} CPU-s")
    return result.network


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
