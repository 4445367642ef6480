"""Quality in a report: divergences with their intervals, look-ups, and differences beside seeds."""

from __future__ import annotations

from types import ModuleType

import pytest

from harness.analysis.quality import trainings
from harness.analysis.results import Result, results
from harness.report.conditions import conditions
from harness.report.findings import Grid
from harness.report.markdown import markdown
from harness.report.notes import notes
from harness.report.page import html
from harness.report.quality import quality_grids
from harness.report.seeds import seed_grids, seed_sentences
from harness.report.sheet import sheet
from harness.run import MetricValue
from harness.store.rows import StoredRun
from harness.suite.points import QualityPoint

# Bits a byte by stack and seed: gqa is 0.02 worse than mha where seeds differ by as much, mqa 0.3.
FAMILY = {
    "mha": (2.00, 2.02, 1.98),
    "gqa": (2.02, 2.05, 1.99),
    "mqa": (2.30, 2.31, 2.29),
}


def _point(task: str, **changes: int) -> QualityPoint:
    fields = {"windows": 8, "tokens": 256, "prompt_tokens": 1} | changes
    return QualityPoint.model_validate({"task": task, **fields})


class Made:
    """Stored runs of quality, made up one by one."""

    def __init__(self, example_sweep: ModuleType) -> None:
        self._example, self.runs = example_sweep, list[StoredRun]()

    def add(
        self,
        model: str,
        stack: str,
        point: QualityPoint,
        values: dict[str, tuple[float, float, float] | None],
        training: tuple[str, int] | None = None,
        dtype: str = "float32",
    ) -> None:
        """One case with its metrics: value and bounds, or None where it is undefined."""
        case = self._example.case(stack, model=model, dtype=dtype)
        case = case.model_copy(update={"workload": point})
        said: dict[str, object] = {"texts": "held-out text"}
        if training is not None:
            said["training"], said["seed"] = training
        record = self._example.record(case, telemetry={"quality": said})
        metrics = [
            MetricValue(name=name, value=None, null_reason="the case is its own baseline")
            if found is None
            else MetricValue(name=name, value=found[0], n=8, ci_low=found[1], ci_high=found[2])
            for name, found in values.items()
        ]
        record = record.model_copy(update={"metrics": metrics})
        self.runs += self._example.stored(case, record, first_id=len(self.runs) + 1)


@pytest.fixture
def found(example_sweep: ModuleType) -> list[Result]:
    made = Made(example_sweep)
    for stack, values in FAMILY.items():
        for seed, bits in enumerate(values):
            measured: dict[str, tuple[float, float, float] | None] = {
                "bits_per_byte": (bits, bits - 0.1, bits + 0.1),
                "bits_per_byte_16_64": (bits + 0.01, bits - 0.1, bits + 0.1),
                "kl_to_baseline": None,
            }
            made.add(f"zoo/equal{seed}-{stack}", stack, _point("text"), measured, (stack, seed))
    rounded = {
        "bits_per_byte": (1.5, 1.4, 1.6),
        "bits_per_byte_increase": (0.00012, -0.0001, 0.00034),
        "kl_to_baseline": (3.1e-5, 3.0e-5, 3.2e-5),
        "top1_agreement": (0.998, 0.99, 1.0),
    }
    made.add("zoo/small-gqa", "gqa", _point("text"), dict(rounded), ("s", 0), dtype="bfloat16")
    made.add("zoo/small-mha", "mha", _point("cloze"), {"cloze_accuracy": (0.8, 0.7, 0.9)}, ("a", 0))
    made.add("zoo/small-gqa", "gqa", _point("cloze"), {"cloze_accuracy": (0.6, 0.5, 0.7)}, ("s", 0))
    copying = {"copying_accuracy": (0.7, 0.6, 0.8), "copying_gain": (0.3, 0.2, 0.4)}
    made.add("zoo/small-gqa", "gqa", _point("copying"), dict(copying), ("s", 0))
    made.add(
        "zoo/needle64", "gqa", _point("needle", tokens=82),
        {"needle_accuracy_16": (1.0, 1.0, 1.0), "needle_accuracy_256": None},
    )  # fmt: skip
    made.add(
        "zoo/recall8-conv",
        "conv",
        _point("recall", tokens=33),
        {"recall_accuracy": (1.0, 0.9, 1.0)},
    )
    return results(made.runs)


def _grid(found: list[Result], title: str) -> Grid:
    every = [*quality_grids(found, "mha"), *seed_grids(found, "mha")]
    (grid,) = (each for each in every if each.title.startswith(title))
    return grid


def _row(grid: Grid, first: str) -> dict[str, str]:
    (row,) = (row for row in grid.rows if row[0] == first)
    return dict(zip(grid.header, row, strict=True))


def test_divergence_stands_with_its_interval_and_a_baseline_has_none(found: list[Result]) -> None:
    grid = _grid(found, "Held-out text")
    assert grid.title == (
        "Held-out text: 8 texts of 256 tokens, torch, 1 thread, float32 unless named"
    )
    # Families together, the baseline first of each.
    assert [row[0] for row in grid.rows] == [
        *(f"zoo/equal{seed}-{stack}" for seed in range(3) for stack in ("mha", "gqa", "mqa")),
        "zoo/small-gqa, bfloat16",
    ]
    row = _row(grid, "zoo/small-gqa, bfloat16")
    assert row["bits/byte"] == "1.500 +-0.100"
    assert row["increase"] == "+0.00012 +-0.00022"
    assert row["KL (nats)"] == "3.1e-05 +-3.2%"
    assert row["same token"] == "0.998 (>0.990)"
    assert row["at 16-64"] == "-"
    assert _row(grid, "zoo/equal0-mha")["KL (nats)"] == "-"
    # Nobody measured these places.
    assert "at 128-256" not in grid.header


def test_tasks_of_one_stack_share_a_row(found: list[Result]) -> None:
    grid = _grid(found, "Copying and cloze")
    # What all rows share stands in the title.
    assert grid.title.endswith("1 thread, float32")
    row = _row(grid, "zoo/small-gqa")
    assert (row["copying"], row["gain"]) == ("0.700 +-0.100", "+0.300 +-0.100")
    assert row["cloze"] == "0.600 +-0.100"
    assert _row(grid, "zoo/small-mha")["copying"] == "-"


def test_look_ups_of_different_lengths_stand_together(found: list[Result]) -> None:
    recall, needles = _grid(found, "Recall"), _grid(found, "Needles")
    assert (recall.header[1:], needles.header[1:]) == (("recall",), ("after 16",))
    assert _row(needles, "zoo/needle64, gqa")["after 16"] == "1.000"
    # Cut at 1, so that the interval is not symmetric.
    assert _row(recall, "zoo/recall8-conv")["recall"] == "1.000 (>0.900)"


def test_a_difference_within_the_seeds_is_none_and_one_beyond_is_told(found: list[Result]) -> None:
    grid = _grid(found, "Seeds: bits a byte of zoo/equal0")
    rows = {row[0]: dict(zip(grid.header, row, strict=True)) for row in grid.rows}
    assert list(rows) == ["mha", "gqa", "mqa"]
    assert rows["mha"]["by seed"] == "2.0000, 2.0200, 1.9800"
    assert rows["mha"]["seed spread"] == "0.0200"
    assert rows["mha"]["less mha's"] == "baseline"
    # sd 0.02 and 0.03 over 3 seeds: 2.776 sqrt((0.0004 + 0.0009) / 2 * 2 / 3).
    assert rows["gqa"]["less mha's"] == "+0.0200 +-0.0578"
    assert rows["gqa"]["difference"] == "none"
    assert rows["mqa"]["less mha's"] == "+0.3000 +-0.0358"
    assert rows["mqa"]["difference"] == "worse"
    sentences = seed_sentences(found, "mha")
    assert any("of gqa less mha's" in s and "so none" in s for s in sentences)
    assert any("of mqa less mha's" in s and "3 seeds: worse" in s for s in sentences)


def test_the_verdict_follows_the_metrics_direction(found: list[Result]) -> None:
    (told,) = (each for each in trainings(found, "mqa") if each.metric == "bits_per_byte")
    assert {stack.stack: stack.verdict for stack in told.stacks} == {
        "mqa": "", "mha": "better", "gqa": "better",
    }  # fmt: skip


def test_one_seed_says_nothing_however_large_the_difference(found: list[Result]) -> None:
    (told,) = (each for each in trainings(found, "mha") if each.metric == "cloze_accuracy")
    assert [stack.verdict for stack in told.stacks] == ["", "unknown"]
    grid = _grid(found, "Architectures that were trained with one seed")
    assert grid.rows == (("zoo/small, gqa", "cloze", "0.6000", "-0.2000", "unknown"),)
    (sentence,) = (s for s in seed_sentences(found, "mha") if "nobody knows" in s)
    assert sentence.startswith("Every architecture of zoo/small was trained with one seed")


def test_stacks_on_one_training_need_no_seeds(example_sweep: ModuleType) -> None:
    made = Made(example_sweep)
    for stack in ("mha", "mha+paged"):
        for seed in (0, 1):
            bits = {"bits_per_byte": (2.0 + seed, 1.9, 2.1)}
            made.add(f"zoo/equal{seed}-mha", stack, _point("text"), dict(bits), ("mha", seed))
    assert trainings(results(made.runs), "mha") == []
    # Of another training the plainest stack is told, once.
    for stack in ("gqa+paged", "gqa"):
        bits = {"bits_per_byte": (2.5, 2.4, 2.6)}
        for seed in (0, 1):
            made.add(f"zoo/equal{seed}-gqa", stack, _point("text"), dict(bits), ("gqa", seed))
    (told,) = trainings(results(made.runs), "mha")
    assert [row.stack for row in told.stacks] == ["mha", "gqa"]


def test_the_page_the_text_and_the_sheet_tell_it(
    found: list[Result], example_sweep: ModuleType
) -> None:
    sweep = example_sweep.row()
    told = sheet(sweep, found)
    assert told.blocks == ()
    assert not any(grid.title.startswith("Kernel") for grid in told.slopes)
    assert "tpot" not in told.defined
    assert {"bits_per_byte", "kl_to_baseline", "needle_accuracy_16"} <= set(told.defined)
    for text in (html(sweep, found), markdown(sweep, found)):
        assert "Seeds: bits a byte of zoo/equal0" in text
        assert "KL(baseline || stack)" in text.replace("\\|", "|")
        assert "emission" not in text
    said = dict(conditions(sweep, found))
    assert said["rounds"].endswith("intervals are 95 % over texts")


def test_what_was_computed_before_is_said(found: list[Result], example_sweep: ModuleType) -> None:
    def noted() -> list[str]:
        return [n for n in notes(example_sweep.row(), found, 1) if "computed before" in n]

    assert noted() == []
    found[0] = found[0].__class__(**(vars(found[0]) | {"telemetry": ({"cached": {"file": "x"}},)}))
    assert noted() == [
        f"The quality of 1 of {len(found)} cases was computed before from the same inputs and is "
        "told again; remove results/quality to have it computed anew."
    ]
