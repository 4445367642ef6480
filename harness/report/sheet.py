"""Everything a report says about a sweep, as text, before any layout.

Terminal, Markdown and HTML lay out the same Sheet, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.analysis.judge import Evidence, judge
from harness.analysis.ratios import Point, Ratio, baselines, point, ratio
from harness.analysis.results import WITH_NUMBERS, Result
from harness.analysis.slopes import slopes
from harness.analysis.state import states
from harness.analysis.verdict import VerdictName
from harness.errors import NothingMeasuredError, unknown
from harness.metrics import METRICS
from harness.report import conditions as told
from harness.report import units
from harness.report.findings import Grid, slope_grid, state_grid, state_sentences, step_grid
from harness.report.kernels import kernel_grids
from harness.report.notes import notes
from harness.report.predicted import Predicted, predicted_grid
from harness.report.quality import quality_grids
from harness.report.seeds import seed_grids, seed_sentences
from harness.report.serving import serving_grids
from harness.store.rows import SweepRow

# What the ratio is of, unless a user says otherwise: the first that any result defines.
PRIMARY = ("tpot", "ttft", "throughput", "kernel_time", "bits_per_byte")
# The columns after it, in order of what a narrow screen keeps.
SECONDARY = ("ttft", "throughput", "state_bytes", "peak_bytes", "roofline_fraction", "itl_p99")

TITLES = {
    "tpot": "time/token",
    "ttft": "first token",
    "throughput": "tokens/s",
    "state_bytes": "state",
    "peak_bytes": "peak",
    "itl_p99": "itl p99",
    "roofline_fraction": "roofline",
}


@dataclass(frozen=True)
class Line:
    """One result in its block: a cell a column, or the status in place of numbers."""

    stack: str
    is_baseline: bool
    status: str
    cells: tuple[str, ...]  # primary, ratio, then the other columns
    verdict: VerdictName | None  # of the ratio, among all of the table


@dataclass(frozen=True)
class Block:
    """All results of one point of the grid, the baseline first."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Sheet:
    """A sweep told: conditions, table, failures, what was not tried, findings, notes."""

    title: str
    about: str
    conditions: tuple[tuple[str, str], ...]
    baseline: str
    metric: str
    columns: tuple[str, ...]  # metric names: primary, then the others
    defined: tuple[str, ...]  # metric names: those whose formulas a reader needs
    titles: tuple[str, ...]  # one a cell
    blocks: tuple[Block, ...]
    failures: tuple[tuple[str, str, str], ...]  # case, status, reason
    untried: tuple[tuple[str, str, str], ...]
    slopes: tuple[Grid, ...]
    details: tuple[Grid, ...]  # long ones, for a file and not for a terminal
    findings: tuple[str, ...]
    notes: tuple[str, ...]


def sheet(
    sweep: SweepRow,
    results: Sequence[Result],
    baseline: str | None = None,
    metric: str | None = None,
    predicted: Predicted | None = None,
) -> Sheet:
    """The sheet of one sweep, with what was predicted beside it by device.

    Raises UsageError for an unknown baseline or metric.
    """
    outline = told.outline(sweep)
    generated = [r for r in results if r.generates]
    rest = [r for r in results if not r.generates]
    label = choose_baseline(results, outline, baseline)
    if metric is not None and metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    primary = metric or next((m for m in PRIMARY if _defined(results, m)), PRIMARY[0])
    others = [m for m in SECONDARY if m != primary and _defined(results, m)]
    columns = (primary, *others)
    ordered = order(generated, label, outline.stacks)
    held = states(ordered, label)
    all_ordered = [*ordered, *rest]
    grid = predicted_grid(all_ordered, predicted or {}, primary)
    beside = [] if grid is None else [grid]
    return Sheet(
        title=f"{sweep.suite}, sweep {sweep.id}",
        about=outline.about,
        conditions=tuple(told.conditions(sweep, results)),
        baseline=label,
        metric=primary,
        columns=columns,
        defined=columns if ordered else tuple(m for m in METRICS if _defined(results, m)),
        titles=(_title(primary), f"vs {label}", *map(_title, others)),
        blocks=_blocks(ordered, label, columns),
        failures=_listed([r for r in all_ordered if r.failed], results),
        untried=_listed([r for r in all_ordered if _untried(r)], results),
        slopes=(
            *(slope_grid(group, label) for group in slopes(ordered)),
            *serving_grids(rest, label, outline.stacks),
            *quality_grids(rest, label),
            *seed_grids(rest, label),
            *kernel_grids(rest),
            *beside,
        ),
        details=tuple(g for g in (step_grid(ordered), state_grid(held)) if g is not None),
        findings=(*state_sentences(held), *seed_sentences(rest, label)),
        notes=tuple(notes(sweep, results, outline.rounds)),
    )


def _untried(result: Result) -> bool:
    return not result.failed and result.status not in WITH_NUMBERS


def choose_baseline(
    results: Sequence[Result], outline: told.Outline, wanted: str | None = None
) -> str:
    """The label ratios are against: the one asked for, the suite's, or the first stack there is."""
    labels = list(dict.fromkeys(r.case.label for r in results))
    if wanted is not None:
        if wanted not in labels:
            raise unknown("stack", wanted, labels)
        return wanted
    if outline.baseline in labels:
        return str(outline.baseline)
    if not labels:
        raise NothingMeasuredError("the sweep holds no run yet, so there is nothing to report")
    return next((label for label in outline.stacks if label in labels), sorted(labels)[0])


def order(results: Sequence[Result], label: str, stacks: Sequence[str]) -> list[Result]:
    """Results by point, the baseline first, then in the suite's order of stacks."""
    rank = {stack: i for i, stack in enumerate(stacks)}

    def key(result: Result) -> tuple[object, ...]:
        case, at = result.case, point(result)
        w, stack = case.generated, case.label
        place = (at.source, at.model, at.backend, at.dtype, at.threads, at.cuda_graph)
        return (*place, w.batch, w.prompt_tokens, w.new_tokens, stack != label,
                rank.get(stack, len(rank)), stack)  # fmt: skip

    return sorted(results, key=key)


def _blocks(results: Sequence[Result], label: str, columns: Sequence[str]) -> tuple[Block, ...]:
    against = baselines(results, label)
    compared = _compared(results, against, columns[0])
    names = told.varying(results)
    grouped: dict[Point, list[Result]] = {}
    for result in results:
        if result.status not in ("unsupported", "skipped"):
            grouped.setdefault(point(result), []).append(result)
    blocks = []
    for at, members in grouped.items():
        w = at.workload
        title = f"batch {w.batch}, prompt {w.prompt_tokens}, new {w.new_tokens}"
        extra = told.named(members[0], names)
        lines = tuple(_line(r, against.get(at), compared.get(r.run_ids), columns) for r in members)
        blocks.append(Block(f"{title}, {extra}" if extra else title, lines))
    return tuple(blocks)


def _compared(
    results: Sequence[Result], against: Mapping[Point, Result], metric: str
) -> dict[tuple[int, ...], tuple[Ratio, VerdictName | None]]:
    """By its runs, each result's ratio to its baseline and what that says among all of them."""
    ratios = {
        result.run_ids: ratio(result, base, metric)
        for result in results
        if (base := against.get(point(result))) is not None and base is not result
    }
    judged = {key: r for key, r in ratios.items() if r.logs and _directed(metric)}
    rulings = judge([Evidence(metric, r.logs, r.exact) for r in judged.values()])
    verdicts = {key: found.verdict for key, found in zip(judged, rulings, strict=True)}
    return {key: (found, verdicts.get(key)) for key, found in ratios.items()}


def _directed(metric: str) -> bool:
    return METRICS[metric].direction != "neither"


def _line(
    result: Result,
    baseline: Result | None,
    compared: tuple[Ratio, VerdictName | None] | None,
    columns: Sequence[str],
) -> Line:
    stack, is_baseline = result.case.label, result is baseline
    if result.status not in WITH_NUMBERS:
        return Line(stack, is_baseline, result.status, (), None)
    primary = columns[0]
    estimate = result.metrics.get(primary)
    verdict = None
    times = "baseline" if is_baseline else "no baseline"
    if compared is not None:
        times, verdict = units.times(compared[0]), compared[1]
    head = units.NOTHING
    if estimate is not None and estimate.value is not None:
        head = f"{units.value(primary, estimate.value)} {units.spread(estimate)}".rstrip()
    cells = (head, times, *(_cell(result, name) for name in columns[1:]))
    return Line(stack, is_baseline, result.status, cells, verdict)


def _cell(result: Result, metric: str) -> str:
    number = result.value(metric)
    if number is None:
        return units.NOTHING
    # The column's title says the unit.
    return units.digits(number) if metric == "throughput" else units.value(metric, number)


def _listed(chosen: Sequence[Result], every: Sequence[Result]) -> tuple[tuple[str, str, str], ...]:
    names = told.varying(every)
    rows = []
    for result in chosen:
        extra = told.named(result, names)
        title = f"{result.case.title} {extra}".rstrip()
        rows.append((title, result.status, result.reason or ""))
    return tuple(rows)


def _defined(results: Sequence[Result], metric: str) -> bool:
    return any(r.value(metric) is not None for r in results)


def _title(metric: str) -> str:
    return TITLES.get(metric, metric.replace("_", " "))
