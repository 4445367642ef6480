"""Held-out loss: over all windows, by position, and of counting models as bars to beat."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from harness.zoo.network import Network

# Positions whose losses are averaged together: [start, end) of the predicting token.
BANDS = ((0, 4), (4, 16), (16, 64), (64, 128), (128, 256), (256, 512), (512, 1024))

# Tokens at the end of a window judged with each of these numbers of tokens before the first.
JUDGED = 16
CONTEXTS = (16, 48, 112, 240)


@dataclass(frozen=True)
class HeldOut:
    """Mean losses in nats a token."""

    loss: float
    by_position: tuple[float, ...]  # one number a position


def held_out(network: Network, windows: Tensor, rows: int = 8) -> HeldOut:
    """Mean loss of windows [W, T+1] in float32, `rows` windows at a time."""
    total = torch.zeros(windows.shape[1] - 1, dtype=torch.float64)
    with torch.inference_mode():
        for part in torch.split(windows, rows):
            logits = network(part[:, :-1])  # [B, T, V]
            losses = functional.cross_entropy(logits.mT, part[:, 1:], reduction="none")  # [B, T]
            total += losses.double().sum(0)
    mean = total / len(windows)
    return HeldOut(loss=mean.mean().item(), by_position=tuple(mean.tolist()))


def by_context(network: Network, windows: Tensor, rows: int = 8) -> dict[str, float]:
    """Mean loss of the last tokens of windows [W, 257], by how many tokens they are told before.

    Every figure is of the same tokens, so unlike losses by position it compares no two texts.
    """
    found = {}
    with torch.inference_mode():
        for context in CONTEXTS:
            total = 0.0
            for part in torch.split(windows[:, -JUDGED - context :], rows):
                logits = network(part[:, :-1])[:, -JUDGED:]  # [B, JUDGED, V]
                wanted = part[:, -JUDGED:].flatten()
                losses = functional.cross_entropy(logits.flatten(0, 1), wanted, reduction="sum")
                total += losses.item()
            found[str(context)] = total / (len(windows) * JUDGED)
    return found


def bands(by_position: tuple[float, ...]) -> dict[str, float]:
    """Mean loss of each band of positions that the windows cover in full."""
    return {
        f"{start}-{end}": math.fsum(by_position[start:end]) / (end - start)
        for start, end in BANDS
        if end <= len(by_position)
    }


def bits_per_byte(loss: float, tokens: int, text_bytes: int) -> float:
    """Nats a token turned into bits a byte of text, which compares across vocabularies."""
    return loss * tokens / text_bytes / math.log(2)


def counting_bars(train: Tensor, windows: Tensor, vocab: int) -> tuple[float, float]:
    """Held-out loss of the unigram and the bigram count model of the training tokens.

    The unigram adds one to each count; the bigram is interpolated with the unigram by Witten-Bell:
    lambda = c(a) / (c(a) + distinct followers of a).
    """
    ones = torch.ones(vocab, dtype=torch.float64)
    unigram = ones + torch.bincount(train, minlength=vocab)
    unigram /= unigram.sum()
    pairs = torch.bincount(train[:-1] * vocab + train[1:], minlength=vocab * vocab)
    pairs = pairs.view(vocab, vocab).double()
    seen = pairs.sum(1, keepdim=True)
    kinds = (pairs > 0).sum(1, keepdim=True)
    bigram = (pairs + kinds * unigram) / (seen + kinds).clamp(min=1)
    bigram[seen[:, 0] == 0] = unigram
    before, after = windows[:, :-1].flatten(), windows[:, 1:].flatten()
    return (
        -unigram[after].log().mean().item(),
        -bigram[before, after].log().mean().item(),
    )
