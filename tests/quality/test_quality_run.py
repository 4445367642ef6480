"""Quality cases through the worker: numbers of an independent implementation, gates, kept runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import stack as stacks
from harness import worker
from harness.gates import reference
from harness.metrics import METRICS
from harness.model import source, weights
from harness.plan import Trait
from harness.quality import forced, kept, questions, tasks
from harness.quality.forced import Reader, Text
from harness.run import MetricValue, RunRecord
from harness.suite.points import QualityPoint
from harness.worker.job import Job
from harness.zoo import export, rows

MakeJob = Callable[..., Job]


def by_name(record: RunRecord) -> dict[str, MetricValue]:
    assert record.status == "ok", record.reason
    return {metric.name: metric for metric in record.metrics}


def value(record: RunRecord, name: str) -> float:
    found = by_name(record)[name].value
    assert found is not None
    return found


def test_bits_a_byte_are_those_of_the_network_that_was_trained(make_job: MakeJob) -> None:
    """The zoo's own network and its own sum over the same windows."""
    record = worker.run(make_job("text", windows=6, tokens=65))
    found = source.find("zoo/small-gqa", ())
    assert found.folder is not None
    network = export.read(found.folder, rows.get("small-gqa").architecture)
    passages = questions.passages(found, 6, 65)
    windows = torch.tensor(passages.windows)
    with torch.inference_mode():
        logits = network(windows[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.mT, windows[:, 1:], reduction="none")  # [W, T]
    sizes = torch.tensor(passages.entry_bytes)[windows[:, 1:]]
    expected = (loss.sum() / sizes.sum() / math.log(2)).item()
    assert value(record, "bits_per_byte") == pytest.approx(expected, rel=1e-5)
    late = (loss[:, 16:64].sum() / sizes[:, 16:64].sum() / math.log(2)).item()
    assert value(record, "bits_per_byte_16_64") == pytest.approx(late, rel=1e-5)
    metric = by_name(record)["bits_per_byte"]
    assert metric.n == 6
    assert metric.ci_low is not None
    assert metric.ci_high is not None
    assert metric.ci_low < expected < metric.ci_high
    assert "do not cover" in (by_name(record)["bits_per_byte_64_128"].null_reason or "")


@pytest.mark.parametrize("spec", ["mha", "gqa", "gqa+recompute", "gqa+paged"])
def test_given_text_goes_through_the_stacks_own_engine(spec: str) -> None:
    """Texts of other lengths in one batch: each row is what the reference would have."""
    parsed = stacks.parse(spec)
    found = source.find("zoo/small", parsed.member_names)
    plan = stacks.resolve(parsed, found, dtype="float32", backend="torch", slots=2, max_tokens=40)
    loaded = weights.load(found, plan.shape, torch.float32, "cpu")
    texts = [Text(tuple(range(100, 120)), 1), Text(tuple(range(300, 340)), 9), Text((5, 6, 7), 2)]
    rows = forced.reader(plan, dict(loaded), "cpu").read(texts)
    for text, found_rows in zip(texts, rows, strict=True):
        exact = reference.logits(parsed, plan, loaded, torch.tensor(text.tokens), torch.float64)
        wanted = exact[text.fed - 1 : -1]
        assert found_rows.shape == wanted.shape
        assert (found_rows - wanted).abs().max() < 1e-3


def test_the_same_numbers_each_round_and_in_any_batch(make_job: MakeJob, own_results: Path) -> None:
    first = worker.run(make_job("text"))
    for file in own_results.rglob("*.json"):
        file.unlink()
    again = worker.run(make_job("text", round=1))
    assert "cached" not in again.telemetry
    assert again.metrics == first.metrics
    other = worker.run(make_job("text", batch=1))
    assert value(other, "bits_per_byte") == pytest.approx(value(first, "bits_per_byte"), rel=1e-6)


def test_each_task_gives_its_metrics_and_all_of_them_are_some_tasks(make_job: MakeJob) -> None:
    names: set[str] = set()
    for task, changes in (
        ("text", {}),
        ("greedy", {"prompt_tokens": 16, "dtype": "bfloat16"}),
        ("copying", {}),
        ("cloze", {"prompt_tokens": 24}),
        ("needle", {"model": "zoo/needle64", "tokens": 82}),
        ("recall", {"model": "zoo/recall8", "spec": "conv", "tokens": 33}),
    ):
        record = worker.run(make_job(task, **changes))
        for metric in by_name(record).values():
            assert (metric.value is None) == (metric.null_reason is not None)
            assert metric.value is None or math.isfinite(metric.value)
        names |= set(by_name(record))
        assert {"numeric_max", "regret", "state_bytes"} <= {gate.name for gate in record.gates}
        assert task == "greedy" or "numeric_text_max" in {gate.name for gate in record.gates}
    of_quality = {metric.name for metric in METRICS.values() if metric.of == ("quality",)}
    assert names == of_quality


def test_a_needle_is_found_and_one_behind_a_window_is_not(make_job: MakeJob) -> None:
    """What the models are for: a window that is too short for the distance is chance, 1 in 16."""
    fields = {"model": "zoo/needle64", "tokens": 82, "windows": 8}
    whole = worker.run(make_job("needle", **fields))
    assert value(whole, "needle_accuracy_16") == value(whole, "needle_accuracy_64") == 1
    window = worker.run(make_job("needle", spec="local(window=32)", **fields))
    assert value(window, "needle_accuracy_16") > 0.9
    assert value(window, "needle_accuracy_64") < 0.3
    assert "learned no needle" in (by_name(whole)["needle_accuracy_256"].null_reason or "")


def test_attention_recalls_behind_a_convolution_and_hardly_without(make_job: MakeJob) -> None:
    fields = {"model": "zoo/recall8", "tokens": 33, "windows": 8}
    assert value(worker.run(make_job("recall", spec="conv+paged", **fields)), "recall_accuracy") > (
        0.98
    )
    assert value(worker.run(make_job("recall", spec="mha", **fields)), "recall_accuracy") < 0.5


class _Recalls:
    """Logits that know the value of a key that was told, and think the rest equally likely."""

    def read(self, texts: list[Text]) -> list[Tensor]:
        found = []
        for text in texts:
            rows = torch.zeros(len(text.tokens) - text.fed, 17)
            for row in range(len(rows)):
                seen = text.tokens[: text.fed + row]
                told = [i for i in range(1, len(seen) - 1, 2) if seen[i] == seen[-1]]
                if told and len(seen) % 2 == 0:
                    rows[row, seen[told[0] + 1]] = 5
            found.append(rows)
        return found


def test_recall() -> None:
    """A model that looks up is right every time, one that thinks all equal by chance."""
    from dataclasses import replace

    said = (("kind", "Recall"), ("pairs", 4), ("keys", 8), ("values", 8))
    model = replace(source.find("tiny", ()), name="recaller", task=said)
    plan = stacks.resolve(
        stacks.parse("mha"), model, dtype="float32", backend="torch", slots=4, max_tokens=17
    )
    side = tasks.Side(model, plan, {}, "cpu")
    side.__dict__["reader"] = _Recalls()
    point = QualityPoint(task="recall", windows=4, tokens=17, prompt_tokens=1, batch=4)
    (metric,) = tasks.run(tasks.Judged(point, side, None))
    assert (metric.name, metric.value) == ("recall_accuracy", 1.0)


def test_what_rounding_costs_is_measured_beside_the_same_text(make_job: MakeJob) -> None:
    record = worker.run(make_job("text", dtype="bfloat16"))
    assert 0 < value(record, "kl_to_baseline") < 1e-3
    assert 0.9 < value(record, "top1_agreement") <= 1
    assert abs(value(record, "bits_per_byte_increase")) < 0.01
    assert record.telemetry["quality"]["baseline"] == "zoo/small-gqa, dense, contiguous, float32"
    same = worker.run(make_job("text"))
    assert "its own baseline" in (by_name(same)["kl_to_baseline"].null_reason or "")


def test_a_window_is_held_against_the_model_as_it_was_trained(make_job: MakeJob) -> None:
    fields = {"windows": 2, "tokens": 40}
    record = worker.run(make_job("text", spec="gqa+local(window=8)", **fields))
    assert value(record, "kl_to_baseline") > 0.01
    # Spelled in another way it is still the model itself.
    same = worker.run(make_job("text", spec="gqa(kv_heads=2)", **fields))
    assert "its own baseline" in (by_name(same)["kl_to_baseline"].null_reason or "")


def test_another_model_as_baseline(make_job: MakeJob) -> None:
    hashed = source.find("zoo/small-mha", ()).checkpoint_hash
    record = worker.run(make_job("text", against="zoo/small-mha", against_hash=hashed))
    assert value(record, "kl_to_baseline") > 0.1
    assert record.telemetry["quality"]["baseline"].startswith("zoo/small-mha")
    stale = worker.run(make_job("text", against="zoo/small-mha", against_hash="0" * 64))
    assert stale.status == "unsupported"
    assert "not the one this case was planned with" in (stale.reason or "")
    odd = source.find("zoo/needle64", ())
    record = worker.run(make_job("text", against=odd.name, against_hash=odd.checkpoint_hash))
    assert "a vocabulary of 201 and zoo/small-gqa one of 1024" in (record.reason or "")


def test_damaged_weights_show_in_every_number(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong twin that the gates before would have caught: scores alone must tell it too."""
    from harness.worker import quality_run

    right = quality_run._side

    def damaged(base: Any) -> tasks.Side:
        side = right(base)
        noise = torch.Generator().manual_seed(0)
        for name, tensor in side.weights.items():
            if name.endswith(".v"):
                tensor += 0.03 * torch.randn(tensor.shape, generator=noise)
        return side

    monkeypatch.setattr(quality_run, "_side", damaged)
    # bfloat16, so that there is a baseline; the gate on the task's own text is off.
    gate = make_job("text").gate.model_copy(update={"numeric": False})
    record = worker.run(make_job("text", dtype="bfloat16", gate=gate))
    assert value(record, "bits_per_byte_increase") > 0.02
    assert value(record, "kl_to_baseline") > 0.02
    assert value(record, "top1_agreement") < 0.95
    caught = worker.run(make_job("text", dtype="bfloat16"))
    assert caught.status == "gate_failed"
    assert "numeric_text" in (caught.reason or "")
    assert caught.metrics == []


def test_logits_of_another_row_are_caught_by_the_gate_on_the_text(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Reader.read
    monkeypatch.setattr(
        Reader, "read", lambda self, texts: [rows.roll(1, 0) for rows in read(self, texts)]
    )
    record = worker.run(make_job("text"))
    assert record.status == "gate_failed"
    assert "numeric_text" in (record.reason or "")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "tiny", "spec": "mha"}, "'tiny' has no tokenizer"),
        ({"model": "zoo/needle64"}, "has no tokenizer"),
        ({"windows": 5000}, "windows of 32 tokens in zoo/small-gqa's tokenizer, and windows is"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    make_job: MakeJob, changes: dict[str, Any], sentence: str
) -> None:
    record = worker.run(make_job("text", **changes))
    assert record.status == "unsupported"
    assert sentence in (record.reason or "")
    assert "\n" not in (record.reason or "")


def test_blocks_give_text_no_probability() -> None:
    found = source.find("zoo/small-gqa", ())
    plan = stacks.resolve(
        stacks.parse("gqa"), found, dtype="float32", backend="torch", slots=1, max_tokens=8
    )
    with pytest.raises(forced.NoProbabilityError, match="no probability from left to right"):
        forced.reader(plan.add(Trait.BLOCKWISE), {}, "cpu")


def test_gates_alone_keep_nothing(make_job: MakeJob, own_results: Path) -> None:
    record = worker.verify(make_job("text"))
    assert (record.status, record.metrics) == ("ok", [])
    assert not own_results.exists()


def test_what_was_computed_is_told_again_and_says_so(make_job: MakeJob, own_results: Path) -> None:
    first = worker.run(make_job("text"))
    assert first.telemetry["kept"] is None
    again = worker.run(make_job("text", round=1))
    assert (again.status, again.metrics, again.gates) == ("ok", first.metrics, first.gates)
    assert again.telemetry["cached"]["seconds"] > 0
    (file,) = own_results.rglob("*.json")
    assert again.telemetry["cached"]["file"] == f"results/quality/{file.name}"
    # What does not read is computed again.
    file.write_text("{}")
    assert "cached" not in worker.run(make_job("text")).telemetry
    assert json.loads(file.read_text())["metrics"]


def test_nothing_that_decides_the_numbers_is_left_out_of_their_name(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = make_job("text")
    names = {
        kept.key(job),
        kept.key(make_job("text", windows=5)),
        kept.key(make_job("text", dtype="bfloat16")),
        kept.key(make_job("text", checkpoint_hash="0" * 64)),
        kept.key(make_job("text", spec="gqa+recompute")),
        kept.key(make_job("text", gate=job.gate.model_copy(update={"numeric": False}))),
    }
    plugin = tmp_path / "plugin"
    plugin.mkdir()
    (plugin / "layer.py").write_text("x = 1")
    names.add(kept.key(make_job("text", plugin_paths=(str(plugin),))))
    (plugin / "layer.py").write_text("x = 2")
    names.add(kept.key(make_job("text", plugin_paths=(str(plugin),))))
    monkeypatch.setattr(kept, "version", lambda name: "0")
    names.add(kept.key(job))
    assert len(names) == 9
    # Round and place in the sweep decide nothing.
    assert kept.key(make_job("text", round=3, order_slot=7)) == kept.key(job)


def test_a_folder_that_cannot_be_written_costs_no_number(
    make_job: MakeJob, own_results: Path
) -> None:
    own_results.write_text("a file where the folder should be")
    record = worker.run(make_job("text"))
    assert record.status == "ok"
    assert str(own_results) in record.telemetry["kept"]
