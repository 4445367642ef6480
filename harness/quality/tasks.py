"""The tasks of the `quality` workload: each asks its questions of a stack and gives its metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from harness.engine.build import assemble
from harness.engine.request import Request
from harness.metrics import NEEDLE_DISTANCES, QUALITY_BANDS
from harness.model.source import ModelSource
from harness.plan import EnginePlan
from harness.quality import questions, scores
from harness.quality.forced import Reader, Text, reader
from harness.quality.questions import Asked, Passages
from harness.quality.scores import Score
from harness.run import MetricValue
from harness.suite.points import QualityPoint

# Logits held at once, of one stack: a window of 256 tokens of a vocabulary of 49,152 is a fifth.
_LOGITS_BYTES = 256 << 20
_ITSELF = "the case is its own baseline: the model as it was trained, a contiguous cache, float32"


@dataclass
class Side:
    """One stack on one model: what is judged, or the baseline it is held against."""

    source: ModelSource
    plan: EnginePlan
    weights: dict[str, Tensor]
    device: str

    @cached_property
    def reader(self) -> Reader:
        """The stack over given text."""
        return reader(self.plan, self.weights, self.device)

    @cached_property
    def writer(self) -> Any:
        """The stack as it writes, with its own decoding."""
        return assemble(self.plan, self.weights, device=self.device)


@dataclass
class Judged:
    """What the tasks need, and some texts with their logits for the gate that follows."""

    point: QualityPoint
    stack: Side
    baseline: Side | None  # None: the stack is its own
    watched: list[tuple[Text, Tensor]] = field(default_factory=list)

    def logits(self, side: Side, texts: Sequence[Text]) -> Iterator[tuple[Text, Tensor]]:
        """Each text with the logits that decide it, as many texts at once as room is for."""
        longest = max(len(text.tokens) for text in texts)
        room = _LOGITS_BYTES // (4 * longest * side.plan.shape.vocab)
        at_once = max(1, min(self.point.batch, room))
        for start in range(0, len(texts), at_once):
            some = texts[start : start + at_once]
            yield from zip(some, side.reader.read(some), strict=True)

    def of_the_stack(self, texts: Sequence[Text]) -> Iterator[tuple[Text, Tensor]]:
        """The same of the stack on trial; the first text is watched by a gate."""
        for text, rows in self.logits(self.stack, texts):
            if not self.watched:
                self.watched.append((text, rows))
            yield text, rows


def run(judged: Judged) -> list[MetricValue]:
    """Every metric of the point's task.

    Raises UnfitError for a model that the task cannot be put to, NoProbabilityError for a stack
    that gives text no probability.
    """
    return _TASKS[judged.point.task](judged)


def _text(judged: Judged) -> list[MetricValue]:
    point = judged.point
    found = questions.passages(judged.stack.source, point.windows, point.tokens)
    texts = [Text(window, point.prompt_tokens) for window in found.windows]
    ours: list[Tensor] = []
    theirs: list[Tensor] = []
    apart: list[float] = []
    agreed: list[float] = []
    pairs = zip(judged.of_the_stack(texts), _beside(judged, texts), strict=True)
    for (text, rows), other in pairs:
        decided = text.tokens[text.fed :]
        ours.append(scores.nats(rows, decided))
        if other is None:
            continue
        theirs.append(scores.nats(other, decided))
        apart.append(scores.divergences(other, rows).sum().item())
        agreed.append(scores.hits(rows, other.argmax(-1).tolist()).sum().item())
    counts = [float(len(text.tokens) - text.fed) for text in texts]
    metrics = _bits(texts, found, ours)
    if not theirs:
        names = ("bits_per_byte_increase", "kl_to_baseline", "top1_agreement")
        return [*metrics, *(_undefined(name, _ITSELF) for name in names)]
    bits = [(a - b).sum().item() / math.log(2) for a, b in zip(ours, theirs, strict=True)]
    lengths = [_bytes(text, found) for text in texts]
    return [
        *metrics,
        _metric("bits_per_byte_increase", scores.ratio(bits, lengths)),
        _metric("kl_to_baseline", scores.ratio(apart, counts)),
        _metric("top1_agreement", scores.share(agreed, counts)),
    ]


def _beside(judged: Judged, texts: Sequence[Text]) -> Iterator[Tensor | None]:
    """The baseline's logits of each text, or None where there is no other one."""
    if judged.baseline is None:
        yield from [None] * len(texts)
        return
    for _, rows in judged.logits(judged.baseline, texts):
        yield rows


def _bits(texts: Sequence[Text], found: Passages, losses: Sequence[Tensor]) -> list[MetricValue]:
    """Bits a byte over all tokens, and over those of each band of places."""
    metrics = [_metric("bits_per_byte", _bits_between(texts, found, losses, 0, None))]
    for start, end in QUALITY_BANDS:
        name = f"bits_per_byte_{start}_{end}"
        # A band counts where a window covers it but for its first token, which nothing predicts.
        covered = all(text.fed - 1 <= start and end < len(text.tokens) + 1 for text in texts)
        if covered:
            metrics.append(_metric(name, _bits_between(texts, found, losses, start, end)))
        else:
            metrics.append(_undefined(name, "the windows do not cover these places"))
    return metrics


def _bits_between(
    texts: Sequence[Text],
    found: Passages,
    losses: Sequence[Tensor],
    start: int,
    end: int | None,
) -> Score:
    """Over the tokens whose predecessor stands in [start, end)."""
    bits, lengths = [], []
    for text, loss in zip(texts, losses, strict=True):
        first = text.fed - 1  # the place that decides the first row
        low, high = max(0, start - first), None if end is None else end - first
        bits.append(loss[low:high].sum().item() / math.log(2))
        lengths.append(float(sum(found.entry_bytes[t] for t in text.tokens[text.fed :][low:high])))
    return scores.ratio(bits, lengths)


def _bytes(text: Text, found: Passages) -> float:
    return float(sum(found.entry_bytes[token] for token in text.tokens[text.fed :]))


def _greedy(judged: Judged) -> list[MetricValue]:
    point = judged.point
    found = questions.passages(judged.stack.source, point.windows, point.tokens)
    if judged.baseline is None:
        return [_undefined("greedy_agreement", _ITSELF)]
    prompts = [window[: point.prompt_tokens] for window in found.windows]
    count = point.tokens - point.prompt_tokens
    ours, theirs = (
        _written(side.writer, prompts, count) for side in (judged.stack, judged.baseline)
    )
    lengths = [float(scores.common(a, b)) for a, b in zip(ours, theirs, strict=True)]
    return [_metric("greedy_agreement", scores.mean(lengths))]


def _written(engine: Any, prompts: Sequence[tuple[int, ...]], count: int) -> list[list[int]]:
    """Greedy text after each prompt."""
    engine.reset()
    for i, prompt in enumerate(prompts):
        engine.submit(Request(i, prompt, count))
    texts: list[list[int]] = [[] for _ in prompts]
    with torch.inference_mode():
        while engine.has_work:
            for emission in engine.step():
                texts[emission.request_id] += emission.token_ids
    return texts


def _copying(judged: Judged) -> list[MetricValue]:
    point = judged.point
    found = questions.passages(judged.stack.source, point.windows, point.tokens)
    asked = questions.copies(found.windows, point.prompt_tokens)
    second, first, counts = [], [], []
    for each, hit in _hits(judged, asked):
        half = len(each.text.tokens) // 2
        # The same tokens, where they came first.
        earlier = [place - half for place in each.places if place - half >= each.text.fed]
        second.append(hit[[place - each.text.fed for place in each.places]].mean().item())
        first.append(hit[[place - each.text.fed for place in earlier]].mean().item())
        counts.append(1.0)
    gains = [a - b for a, b in zip(second, first, strict=True)]
    return [
        _metric("copying_accuracy", scores.share(second, counts)),
        _metric("copying_gain", scores.mean(gains)),
    ]


def _cloze(judged: Judged) -> list[MetricValue]:
    point = judged.point
    found = questions.passages(judged.stack.source, point.windows, point.tokens)
    asked = questions.clozes(found.windows, point.prompt_tokens, point.seed)
    texts = [text for cloze in asked for text in cloze.texts]
    losses = [
        scores.nats(rows, text.tokens[text.fed :]).sum().item()
        for text, rows in judged.of_the_stack(texts)
    ]
    right = []
    for start in range(0, len(losses), questions.CHOICES):
        true, *others = losses[start : start + questions.CHOICES]
        right.append(float(true < min(others)))
    return [_metric("cloze_accuracy", scores.share(right, [1.0] * len(right)))]


def _recall(judged: Judged) -> list[MetricValue]:
    point, source = judged.point, judged.stack.source
    task = questions.task_of(source)
    asked = questions.recalls(task, source, point.windows, point.seed)
    return [_metric("recall_accuracy", _accuracy(judged, asked))]


def _needle(judged: Judged) -> list[MetricValue]:
    point, source = judged.point, judged.stack.source
    task = questions.task_of(source)
    found = questions.needles(task, source, point.windows, point.seed)
    return [
        _metric(name, _accuracy(judged, found[distance]))
        if distance in found
        else _undefined(name, f"{source.name} learned no needle so far back")
        for distance in NEEDLE_DISTANCES
        for name in (f"needle_accuracy_{distance}",)
    ]


def _accuracy(judged: Judged, asked: Sequence[Asked]) -> Score:
    """The share of answers that are thought the likeliest."""
    right, counts = [], []
    for each, hit in _hits(judged, asked):
        right.append(hit[[place - each.text.fed for place in each.places]].sum().item())
        counts.append(float(len(each.places)))
    return scores.share(right, counts)


def _hits(judged: Judged, asked: Sequence[Asked]) -> Iterator[tuple[Asked, Tensor]]:
    """For each text whether its decided tokens are the likeliest, [n]."""
    found = judged.of_the_stack([each.text for each in asked])
    for each, (text, rows) in zip(asked, found, strict=True):
        yield each, scores.hits(rows, text.tokens[text.fed :])


def _metric(name: str, score: Score) -> MetricValue:
    return MetricValue(
        name=name, value=score.value, n=score.texts, ci_low=score.low, ci_high=score.high
    )


def _undefined(name: str, reason: str) -> MetricValue:
    return MetricValue(name=name, value=None, null_reason=reason)


_TASKS: dict[str, Callable[[Judged], list[MetricValue]]] = {
    "text": _text,
    "greedy": _greedy,
    "copying": _copying,
    "cloze": _cloze,
    "recall": _recall,
    "needle": _needle,
}
