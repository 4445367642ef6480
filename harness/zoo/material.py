"""What a model is trained and judged on: text, or the questions of a task."""

from dataclasses import dataclass
from typing import Protocol

import tokenizers
import torch
from torch import Tensor

from harness.zoo import evaluate, stream
from harness.zoo.corpus import Novel
from harness.zoo.network import Network
from harness.zoo.stream import Batch
from harness.zoo.table import Budget, Entry
from harness.zoo.tasks import Task

# Held-out windows of text, and sequences of questions, judged at a point of the curve.
CURVE_WINDOWS = 64
CURVE_SEQUENCES = 64
# Beside the seed, so that no question of a judgement is one of the training.
TRAINING, JUDGEMENT = 0, 1


@dataclass(frozen=True)
class Judged:
    """A network's loss on what it was not trained on, and for a task the share it got right."""

    loss: float
    accuracy: float | None = None


class Material(Protocol):
    """Batches by step, and a judgement on what is in none of them."""

    def batch(self, step: int) -> Batch:
        """The windows of one step: a function of the budget's seed and of the step."""
        ...

    def judge(self, net: Network) -> Judged:
        """How well a network does on a small part of what is held out."""
        ...


@dataclass(frozen=True)
class Text:
    """The novels: windows of their train parts, and some windows of their held-out parts."""

    tokens: Tensor  # [n]
    windows: Tensor  # [W, T+1]
    budget: Budget

    def batch(self, step: int) -> Batch:
        """Windows of the training tokens."""
        return stream.batch(self.tokens, self.budget, step)

    def judge(self, net: Network) -> Judged:
        """The loss on the held-out windows."""
        return Judged(loss=evaluate.held_out(net, self.windows).loss)


@dataclass(frozen=True)
class Questions:
    """A task: fresh sequences each step, of which only the answers are learned."""

    task: Task
    budget: Budget

    def batch(self, step: int) -> Batch:
        """As many sequences as the tokens of a step hold."""
        rows = self.budget.step_tokens // self.task.length
        drawn = self.task.questions(rows, self.budget.seed, TRAINING, step)
        return Batch(tokens=torch.from_numpy(drawn.tokens), targets=torch.from_numpy(drawn.answers))

    def judge(self, net: Network) -> Judged:
        """Loss and accuracy on sequences that no step draws."""
        drawn = self.task.questions(CURVE_SEQUENCES, self.budget.seed, JUDGEMENT)
        return answered(net, torch.from_numpy(drawn.tokens), torch.from_numpy(drawn.answers))


def answered(net: Network, tokens: Tensor, answers: Tensor, rows: int = 32) -> Judged:
    """Mean loss and accuracy over the questions of sequences, `rows` sequences at a time.

    tokens, answers: [B, T], answers negative where nothing is asked.
    """
    losses, right, asked = 0.0, 0, 0
    with torch.inference_mode():
        for some, wanted in zip(torch.split(tokens, rows), torch.split(answers, rows), strict=True):
            places = wanted >= 0
            logits = net(some)[places]  # [questions, V]
            losses += stream.loss(logits, wanted[places]).item() * len(logits)
            right += int((logits.argmax(-1) == wanted[places]).sum())
            asked += len(logits)
    return Judged(loss=losses / asked, accuracy=right / asked)


def of(entry: Entry, novels: list[Novel], tokenizer: tokenizers.Tokenizer) -> Material:
    """What a row is trained on."""
    if entry.task is not None:
        return Questions(task=entry.task, budget=entry.budget)
    windows, _ = stream.held_out_windows(novels, tokenizer, entry.budget.short)
    return Text(
        tokens=stream.training_tokens(novels, tokenizer),
        windows=windows[:: max(1, len(windows) // CURVE_WINDOWS)],
        budget=entry.budget,
    )
