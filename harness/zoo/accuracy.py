"""The share of questions that a trained model of the zoo answers right, from its weights.

It runs the network as it was trained (`network.py`), which needs no class elsewhere: mixers that
the engine does not have yet can be judged as well.
"""

from dataclasses import replace
from pathlib import Path

import torch

from harness.errors import UsageError
from harness.zoo import export, material, rows
from harness.zoo.network import Network
from harness.zoo.tasks import Needle, Questions, Recall

# Sequences a figure is taken over; with 4 questions or more each, half a percent is seen.
SEQUENCES = 256


def recall_accuracy(
    name: str, pairs: int, seed: int, models: Path = export.MODELS, sequences: int = SEQUENCES
) -> float:
    """Accuracy of the recall model `name` on sequences of `pairs` pairs, from 0 to 1.

    Raises UsageError for a model of another task, and for more pairs than it has keys.
    """
    entry = rows.get(name)
    if not isinstance(entry.task, Recall):
        raise UsageError(f"the zoo model '{name}' has not learned recall")
    net = export.read(models / name, entry.architecture)
    return recall(net, entry.task, pairs, seed, sequences)


def needle_accuracy(
    name: str, distance: int, seed: int, models: Path = export.MODELS, sequences: int = SEQUENCES
) -> float:
    """Accuracy of the needle model `name` on needles `distance` tokens back, from 0 to 1.

    Raises UsageError for a model of another task, and for a distance that it has not learned.
    """
    entry = rows.get(name)
    if not isinstance(entry.task, Needle):
        raise UsageError(f"the zoo model '{name}' has not learned to find needles")
    net = export.read(models / name, entry.architecture)
    return needle(net, entry.task, distance, seed, sequences)


def recall(net: Network, task: Recall, pairs: int, seed: int, sequences: int = SEQUENCES) -> float:
    """Accuracy of a network on sequences of `pairs` pairs of a task's keys and values."""
    asked = replace(task, pairs=pairs).questions(sequences, seed, material.JUDGEMENT)
    return _share(net, asked)


def needle(
    net: Network, task: Needle, distance: int, seed: int, sequences: int = SEQUENCES
) -> float:
    """Accuracy of a network on a task's needles that lie `distance` tokens back."""
    if not task.near <= distance <= task.far:
        raise UsageError(
            f"the needle's distance {distance} is not within those learned, "
            f"{task.near} to {task.far}"
        )
    asked = task.questions(sequences, seed, material.JUDGEMENT, distance=distance)
    return _share(net, asked)


def _share(net: Network, asked: Questions) -> float:
    judged = material.answered(net, torch.from_numpy(asked.tokens), torch.from_numpy(asked.answers))
    assert judged.accuracy is not None
    return judged.accuracy
