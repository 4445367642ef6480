"""Quality as tables: text that is expected, text that is written, and what is looked up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.analysis.quality import quality
from harness.analysis.ratios import family
from harness.analysis.results import Estimate, Result
from harness.metrics import NEEDLE_DISTANCES
from harness.report import units
from harness.report.findings import Grid

# In order of what a narrow screen keeps.
_TEXT = ("bits_per_byte", "kl_to_baseline", "top1_agreement", "bits_per_byte_increase",
         "bits_per_byte_16_64", "bits_per_byte_128_256")  # fmt: skip
_GREEDY = ("greedy_agreement",)
_TOLD_APART = ("copying_accuracy", "cloze_accuracy", "copying_gain")
_RECALL = ("recall_accuracy",)
_NEEDLES = tuple(f"needle_accuracy_{distance}" for distance in reversed(NEEDLE_DISTANCES))
# Metrics of one table, its title and its note.
_KINDS = (
    (
        _TEXT,
        "Held-out text",
        "KL, share of tokens that both think likeliest and increase of bits/byte are from the "
        "model as it was trained, with a contiguous cache and in float32, over the same windows "
        "(-: this is it); at: bits/byte at these places of a window; +- and ( ): 95 % over windows",
    ),
    (_GREEDY, "Greedy text", "leading tokens equal to those of the model as it was trained"),
    (
        _TOLD_APART,
        "Copying and cloze",
        "copying: tokens right in a passage that comes again; gain: less the share at its first "
        "time; cloze: the true one of four continuations is the likeliest (guessing: 0.250)",
    ),
    (_RECALL, "Recall", "share of values thought the likeliest, after pairs of keys and values"),
    (_NEEDLES, "Needles", "share of needles thought the likeliest so many tokens later"),
)
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


def quality_grids(results: Sequence[Result], baseline: str) -> list[Grid]:
    """A table a kind of task under equal conditions."""
    return [
        grid
        for metrics, title, note in _KINDS
        for grid in _tables(results, baseline, metrics, title, note)
    ]


@dataclass(frozen=True, order=True)
class _Row:
    """What a row is of, in the order of a table: families together, each baseline first."""

    family: str
    other: bool  # not the baseline
    model: str
    stack: str
    dtype: str


def _tables(
    results: Sequence[Result], baseline: str, metrics: Sequence[str], title: str, note: str
) -> list[Grid]:
    """A row a model, stack and dtype, with the metrics of all its tasks; columns that are used."""
    grouped: dict[tuple[str, ...], dict[_Row, dict[str, Estimate]]] = {}
    for result, point in quality(results):
        told = {name: e for name, e in result.metrics.items() if name in metrics}
        if all(estimate.value is None for estimate in told.values()):
            continue
        case = result.case
        # Models of a task have texts of their own length: their rows stand together.
        length = "" if metrics in (_RECALL, _NEEDLES) else f" of {point.tokens} tokens"
        threads = f"{case.threads} thread{'s' * (case.threads > 1)}"
        key = (f"{point.windows} texts{length}", case.backend, threads)
        row = _Row(family(case), case.label != baseline, case.model, case.label, case.dtype)
        grouped.setdefault(key, {}).setdefault(row, {}).update(told)
    return [_grid(title, key, rows, metrics, note) for key, rows in grouped.items()]


def _grid(
    title: str,
    key: tuple[str, ...],
    rows: dict[_Row, dict[str, Estimate]],
    metrics: Sequence[str],
    note: str,
) -> Grid:
    used = [
        name
        for name in metrics
        if any(name in told and told[name].value is not None for told in rows.values())
    ]
    counted = Counter(row.dtype for row in rows)
    usual = max(sorted(counted), key=counted.__getitem__)
    said = usual if len(counted) == 1 else f"{usual} unless named"
    return Grid(
        title=f"{title}: {', '.join([*key, said])}",
        header=("model, stack", *(_title(name) for name in used)),
        rows=tuple(
            (_named(row, usual), *(_cell(name, rows[row].get(name)) for name in used))
            for row in sorted(rows)
        ),
        note=note,
    )


def _named(row: _Row, usual: str) -> str:
    """A row's name, without what the model's name or the title says already."""
    own = row.stack.partition("+")[0]
    if row.model.endswith(f"-{own}"):
        name = f"{row.model} {row.stack.removeprefix(own)}".rstrip()
    else:
        name = f"{row.model}, {row.stack}"
    return name if row.dtype == usual else f"{name}, {row.dtype}"


def _title(name: str) -> str:
    return _TITLES.get(name, name.replace("needle_accuracy_", "after "))


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
    # Bounds of a share are cut at 0 and 1, and then are not symmetric.
    if name in _SHARES and high >= 1:
        return f"{text} (>{low:.{places}f})"
    if name in _SHARES and low <= 0:
        return f"{text} (<{high:.{places}f})"
    return f"{text} +-{(high - low) / 2:.{places}f}"


# Digits after the point, and whether a plus is written.
_PLACES = {
    "bits_per_byte_increase": (5, "+"),
    "copying_gain": (3, "+"),
    "greedy_agreement": (1, ""),
}
_SHARES = ("top1_agreement", "copying_accuracy", "cloze_accuracy", *_RECALL, *_NEEDLES)
