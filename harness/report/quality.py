"""Quality as tables: text that is expected, text that is written, what is looked up, and seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from harness.analysis.quality import Trained, Trainings, quality, trainings
from harness.analysis.results import Estimate, Result
from harness.metrics import NEEDLE_DISTANCES
from harness.report import units
from harness.report.findings import Grid

# In order of what a narrow screen keeps.
_TEXT = ("bits_per_byte", "kl_to_baseline", "top1_agreement", "bits_per_byte_increase",
         "bits_per_byte_16_64", "bits_per_byte_128_256")  # fmt: skip
_WRITTEN = ("greedy_agreement", "copying_accuracy", "copying_gain", "cloze_accuracy")
_LOOKED_UP = ("recall_accuracy", *(f"needle_accuracy_{distance}" for distance in NEEDLE_DISTANCES))
_TITLES = {
    "bits_per_byte": "bits/byte",
    "bits_per_byte_16_64": "at 16-64",
    "bits_per_byte_128_256": "at 128-256",
    "bits_per_byte_increase": "increase",
    "kl_to_baseline": "KL (nats)",
    "top1_agreement": "same token",
    "greedy_agreement": "greedy alike",
    "copying_accuracy": "copying",
    "copying_gain": "gain",
    "cloze_accuracy": "cloze",
    "recall_accuracy": "recall",
}
_WORDS = {
    "bits_per_byte": "bits a byte",
    "copying_accuracy": "copying",
    "cloze_accuracy": "cloze",
    "recall_accuracy": "recall",
}


def quality_grids(results: Sequence[Result], baseline: str) -> list[Grid]:
    """A table a kind of task under equal conditions, and one a family of seeds."""
    found = [
        *_tables(
            results, _TEXT, "Held-out text",
            "KL, share of tokens that both think likeliest and increase of bits/byte are from the "
            "same model with dense weights, a contiguous cache and float32, over the same windows "
            "(-: this is it); at: bits/byte at these places of a window; +- and [ ]: 95 % over "
            "windows",
        ),
        *_tables(
            results, _WRITTEN, "Greedy text, copying and cloze",
            "greedy alike: leading tokens of greedy text equal to that model's; copying: tokens "
            "right in a passage that comes again; gain: less the share at its first time; cloze: "
            "true continuation out of four likeliest (guessing: 0.250)",
        ),
        *_tables(
            results, _LOOKED_UP, "Look-ups",
            "share of values thought the likeliest: after pairs of keys and values, or so many "
            "tokens behind; for models that learned it",
        ),
    ]  # fmt: skip
    return [*found, *(_seed_grid(each, baseline) for each in trainings(results, baseline))]


def quality_sentences(results: Sequence[Result], baseline: str) -> list[str]:
    """Every difference between trainings in words, with what the seeds alone give."""
    return [
        _sentence(each, stack, baseline)
        for each in trainings(results, baseline)
        for stack in each.stacks
        if stack.difference is not None
    ]


def _tables(results: Sequence[Result], metrics: Sequence[str], title: str, note: str) -> list[Grid]:
    """A row a model, stack and dtype, with the metrics of all its tasks; columns that are used."""
    grouped: dict[tuple[str, ...], dict[tuple[str, str, str], dict[str, Estimate]]] = {}
    for result, point in quality(results):
        told = {name: e for name, e in result.metrics.items() if name in metrics}
        if not told:
            continue
        case = result.case
        # Models of a task have texts of their own length: their rows stand together.
        length = "" if metrics is _LOOKED_UP else f" of {point.tokens} tokens"
        threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
        key = (f"{point.windows} texts{length}", case.backend, threads)
        row = (case.model, case.label, case.dtype)
        grouped.setdefault(key, {}).setdefault(row, {}).update(told)
    return [_grid(title, key, rows, metrics, note) for key, rows in grouped.items()]


def _grid(
    title: str,
    key: tuple[str, ...],
    rows: dict[tuple[str, str, str], dict[str, Estimate]],
    metrics: Sequence[str],
    note: str,
) -> Grid:
    used = [
        name
        for name in metrics
        if any(name in told and told[name].value is not None for told in rows.values())
    ]
    dtypes = {dtype for _, _, dtype in rows}
    shared = dtypes.pop() if len(dtypes) == 1 else None
    return Grid(
        title=f"{title}: {', '.join([*key, *([shared] if shared else [])])}",
        header=("model, stack", *(_title(name) for name in used)),
        rows=tuple(
            (_named(*row, shared), *(_cell(name, told.get(name)) for name in used))
            for row, told in sorted(rows.items(), key=lambda item: item[0][0])
        ),
        note=note,
    )


def _named(model: str, stack: str, dtype: str, shared: str | None) -> str:
    """A row's name, without what the model's name or the title says already."""
    parts = [model]
    if not model.endswith(f"-{stack}"):
        parts.append(stack)
    if dtype != shared:
        parts.append(dtype)
    return ", ".join(parts)


def _title(name: str) -> str:
    return _TITLES.get(name, name.replace("needle_accuracy_", "needle at "))


def _cell(name: str, estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return units.NOTHING
    value, low, high = estimate.value, estimate.ci_low, estimate.ci_high
    if name in ("bits_per_byte_16_64", "bits_per_byte_128_256"):
        return f"{value:.3f}"
    if name == "kl_to_baseline":
        return f"{value:.2g} {units.spread(estimate)}".rstrip()
    places, sign = _PLACES.get(name, (3, ""))
    text = f"{value:{sign}.{places}f}"
    if low is None or high is None or low == high:
        return text
    if name in _SHARES:
        # Cut at 0 and 1, so not symmetric.
        return f"{text} [{low:.{places}f}, {high:.{places}f}]"
    return f"{text} +-{(high - low) / 2:.{places}f}"


# Digits after the point, and whether a plus is written.
_PLACES = {
    "bits_per_byte_increase": (5, "+"),
    "copying_gain": (3, "+"),
    "greedy_agreement": (1, ""),
}
_SHARES = ("top1_agreement", "copying_accuracy", "cloze_accuracy", *_LOOKED_UP)


def _seed_grid(told: Trainings, baseline: str) -> Grid:
    return Grid(
        title=f"Seeds: {_WORDS[told.metric]} of {', '.join(told.families)}, "
        f"{', '.join(told.conditions)}",
        header=("stack", "by seed", "mean", "seed spread", f"less {baseline}'s", "difference"),
        rows=tuple(_seed_row(stack) for stack in told.stacks),
        note="seed spread: standard deviation over seeds; +-: what the seeds alone give, 95 % of "
        "Student's t; a difference within it is none, and one seed says nothing",
    )


def _seed_row(stack: Trained) -> tuple[str, ...]:
    values = stack.values
    spread = f"{statistics.stdev(values):.4f}" if len(values) > 1 else "one seed"
    by_seed = ", ".join(f"{value:.4f}" for value in values)
    cells = (stack.stack, by_seed, f"{statistics.mean(values):.4f}", spread)
    if stack.difference is None:
        return (*cells, "baseline", "")
    return (*cells, _difference(stack), stack.verdict)


def _difference(stack: Trained) -> str:
    assert stack.difference is not None
    told = f"{stack.difference.value:+.4f}"
    spread = stack.difference.spread
    return told if spread is None else f"{told} +-{spread:.4f}"


def _sentence(told: Trainings, stack: Trained, baseline: str) -> str:
    what = f"{_WORDS[told.metric]} of {stack.stack} less {baseline}'s on {', '.join(told.families)}"
    head = f"{what[0].upper()}{what[1:]}: {_difference(stack)}"
    if stack.verdict == "unknown":
        return f"{head}; trained with one seed each, so nobody knows whether that is a difference."
    if stack.verdict == "none":
        return f"{head}; within the spread of the seeds, so none."
    return f"{head}; beyond the spread of {len(stack.values)} seeds: {stack.verdict}."
