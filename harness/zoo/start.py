"""Beginning from another row's weights: a model grown in depth, or cut from a deeper one."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from harness.zoo import export, network, rows
from harness.zoo.table import Entry


def weights(entry: Entry, models: Path) -> network.Network:
    """The network a row's training begins with: seeded, or taken from the model it starts from.

    A layer that comes from no layer of the source adds nothing at first (its projections into the
    stream are zero, as in arXiv:2401.02415, section 3.2), so growing a model leaves its function
    as it was. Raises UsageError where the source is not trained yet or does not fit.
    """
    net = network.build(entry.architecture, entry.budget.seed, entry.budget.initial_std)
    if entry.start is None:
        return net
    source = read(entry.start.model, models)
    with torch.no_grad():
        net.embed_tokens.weight.copy_(source.embed_tokens.weight)
        net.norm.weight.copy_(source.norm.weight)
        for layer, origin in zip(net.layers, entry.start.layers, strict=True):
            if origin is not None:
                layer.load_state_dict(source.layers[origin].state_dict())
                continue
            for name, weight in layer.named_parameters():
                if name.endswith(network.INTO_STREAM):
                    weight.zero_()
    return net


def read(name: str, models: Path) -> network.Network:
    """The trained network of a row, from its folder."""
    return export.read(models / name, rows.get(name).architecture)


def recipe(entry: Entry, models: Path) -> dict[str, Any]:
    """What the weights of other models that a training begins from or learns from add to its
    recipe: their names, their use and the hash of their files."""
    told: dict[str, Any] = {}
    if entry.start is not None:
        told["start"] = [entry.start.layers, _digest(models / entry.start.model)]
    if entry.teacher is not None:
        told["teacher"] = [vars(entry.teacher), _digest(models / entry.teacher.model)]
    plain: dict[str, Any] = json.loads(json.dumps(told))
    return plain


def _digest(folder: Path) -> str:
    return hashlib.sha256(export.weights_file(folder).read_bytes()).hexdigest()
