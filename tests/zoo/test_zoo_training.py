"""The trainer: same bits twice, same bits after an interruption, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from harness.errors import UsageError
from harness.zoo import (
    card,
    checkpoint,
    corpus,
    evaluate,
    export,
    network,
    publish,
    readme,
    rows,
    stream,
    table,
    tasks,
    tokenizer,
    train,
)
from harness.zoo.__main__ import main

ENTRY = table.Entry(
    name="tiny",
    summary="a model for tests",
    architecture=table.Architecture(layers=2, heads=4, kv_heads=2, width=32, ff=64, head_dim=8),
    budget=table.Budget(steps=4, learning_rate=1e-2, step_tokens=128, short=32, long=64, warmup=2),
)


@pytest.fixture(scope="module")
def novels() -> list[corpus.Novel]:
    full = corpus.read()[0]
    return [corpus.Novel("part", full.train[:40_000], full.held_out[:8_000])]


def weights(trained: train.Trained) -> dict[str, torch.Tensor]:
    return dict(trained.network.named_parameters())


def run(
    path: Path, novels: list[corpus.Novel], stop: int | None = None, resume: bool = False
) -> train.Trained:
    return train.train(ENTRY, novels, tokenizer.load(), path, stop=stop, resume=resume)


def test_three_steps_twice_give_the_same_bits(tmp_path: Path, novels: list[corpus.Novel]) -> None:
    first = run(tmp_path / "a.checkpoint", novels, stop=3)
    second = run(tmp_path / "b.checkpoint", novels, stop=3)
    start = dict(network.build(ENTRY.architecture, seed=0).named_parameters())
    for name, weight in weights(first).items():
        assert torch.equal(weight, weights(second)[name]), name
        assert not torch.equal(weight, start[name]), name


def test_resume_gives_the_bits_of_an_uninterrupted_run(
    tmp_path: Path, novels: list[corpus.Novel]
) -> None:
    whole = run(tmp_path / "whole.checkpoint", novels)
    path = tmp_path / "parts.checkpoint"
    assert run(path, novels, stop=2).progress.step == 2
    resumed = run(path, novels, resume=True)
    assert resumed.progress.step == ENTRY.budget.steps
    assert resumed.progress.curve == whole.progress.curve
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(resumed)[name]), name


def test_another_seed_gives_other_weights_and_windows() -> None:
    tokens = torch.arange(10_000)
    first = stream.batch(tokens, ENTRY.budget, step=0)
    again = stream.batch(tokens, ENTRY.budget, step=0)
    other = stream.batch(tokens, table.Budget(**{**vars(ENTRY.budget), "seed": 1}), step=0)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.targets, other.targets)


def test_windows_are_shifted_by_one_and_every_second_starts_a_document() -> None:
    tokens = torch.arange(2, 10_000)
    batch = stream.batch(tokens, ENTRY.budget, step=0)
    assert batch.tokens.shape == (4, 32)
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert batch.tokens[:, 0].eq(tokenizer.BOS_ID).tolist() == [True, False, True, False]
    long = stream.batch(tokens, ENTRY.budget, step=3)
    assert long.tokens.shape == (2, 64)
    assert long.tokens[:, 0].eq(tokenizer.BOS_ID).tolist() == [False, True]


def test_learning_rate_rises_then_falls_to_nearly_nothing() -> None:
    budget = rows.get("small-mha").budget
    rates = [train.learning_rate(budget, step) for step in range(budget.steps)]
    assert rates[0] == pytest.approx(budget.learning_rate / budget.warmup)
    assert max(rates) == pytest.approx(budget.learning_rate)
    assert rates[-1] < budget.learning_rate / (budget.steps - budget.warmup) * 1.01


def test_checkpoint_of_another_recipe_is_refused(
    tmp_path: Path, novels: list[corpus.Novel]
) -> None:
    path = tmp_path / "tiny.checkpoint"
    run(path, novels, stop=1)
    shorter = [corpus.Novel("part", novels[0].train[:-1000], novels[0].held_out)]
    with pytest.raises(UsageError, match="another recipe"):
        run(path, shorter, resume=True)


def test_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.checkpoint"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(UsageError, match="cannot be read"):
        checkpoint.load(path, recipe="any")


def test_snapshot_without_a_checkpoint_is_refused(
    tmp_path: Path, novels: list[corpus.Novel]
) -> None:
    with pytest.raises(UsageError, match="no checkpoint"):
        publish.snapshot(ENTRY, novels, tmp_path / "none.checkpoint", tmp_path)


def test_corpus_too_short_for_a_window_is_refused() -> None:
    with pytest.raises(UsageError, match="too few for a window of 32"):
        stream.batch(torch.arange(20), ENTRY.budget, step=0)


def test_a_snapshot_says_so_and_the_finished_model_does_not(
    tmp_path: Path, novels: list[corpus.Novel]
) -> None:
    path, folder = tmp_path / "tiny.checkpoint", tmp_path / "model"
    run(path, novels, stop=2)
    publish.snapshot(ENTRY, novels, path, folder)
    assert "Snapshot after 2 of 4 steps" in (folder / "README.md").read_text(encoding="utf-8")
    publish.trained(ENTRY, novels, path, folder, resume=True)
    told = card.read(folder)
    assert told.finished
    assert "Snapshot" not in (folder / "README.md").read_text(encoding="utf-8")
    windows, _ = stream.held_out_windows(novels, tokenizer.load(), told.held_out[0].window)
    net = export.read(folder, ENTRY.architecture)
    assert evaluate.held_out(net, windows).loss == pytest.approx(told.held_out[0].loss, abs=1e-6)


def test_training_leaves_the_threads_as_they_were(
    tmp_path: Path, novels: list[corpus.Novel]
) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        run(tmp_path / "tiny.checkpoint", novels, stop=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_train_all_goes_on_where_it_stopped_and_leaves_what_is_finished(
    tmp_path: Path,
    novels: list[corpus.Novel],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The second model starts from the first, the third learned a task; all lie below --out."""
    task = tasks.Recall(pairs=2, keys=4, values=4)
    architecture = table.Architecture(
        layers=1, heads=2, kv_heads=2, width=16, ff=0, head_dim=8, vocab=task.vocab
    )
    budget = replace(ENTRY.budget, short=task.length, long=task.length, step_tokens=9 * 8)
    table_of_three = (
        ENTRY,
        replace(ENTRY, name="next", start=table.Start("tiny", (1, 0))),
        table.Entry("asked", "a task for tests", architecture, budget, task=task),
    )
    monkeypatch.setattr(rows, "TABLE", table_of_three)
    monkeypatch.setattr(corpus, "read", lambda: novels)
    run(tmp_path / "checkpoints" / "tiny.checkpoint", novels, stop=2)
    assert main(["train", "--all", "--out", str(tmp_path)]) == 0
    told = [card.read_any(tmp_path / "models" / entry.name) for entry in table_of_three]
    assert [made.finished for made in told] == [True, True, True]
    assert isinstance(told[2], card.TaskCard)
    assert 0 <= told[2].accuracy["2 pairs"] <= 1
    asked = json.loads((tmp_path / "models" / "asked" / "config.json").read_text())
    assert asked["architectures"] == ["AttentionOnlyForCausalLM"]
    whole = run(tmp_path / "whole.checkpoint", novels)
    written = export.read(tmp_path / "models" / "tiny", ENTRY.architecture)
    for name, weight in written.named_parameters():
        assert torch.equal(weight, weights(whole)[name]), name
    capsys.readouterr()
    assert main(["train", "--all", "--out", str(tmp_path)]) == 0
    again = capsys.readouterr().out
    assert again.startswith("tiny: finished\nnext: finished\nasked: finished\n\nmodel ")
    # What each took, as `list --out` tells it.
    assert main(["list", "--out", str(tmp_path)]) == 0
    assert again.endswith(capsys.readouterr().out)
    seconds = sum(made.cpu_seconds for made in told)
    assert f"all: {seconds:,.0f} CPU-s" in again


def test_float16_weights_are_judged_as_they_are_written(
    tmp_path: Path, novels: list[corpus.Novel]
) -> None:
    path, folder = tmp_path / "tiny.checkpoint", tmp_path / "model"
    entry = replace(ENTRY, storage="float16")
    publish.trained(entry, novels, path, folder, resume=False)
    told = card.read(folder)
    kept = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in kept.values()} == {torch.float16}
    assert told.rounding is not None
    assert 0 < abs(told.rounding) < 0.01
    assert f"cost of float16 | {told.rounding:+.6f} nats" in readme.render(told)
    windows, _ = stream.held_out_windows(novels, tokenizer.load(), told.held_out[0].window)
    judged = evaluate.held_out(export.read(folder, ENTRY.architecture), windows).loss
    assert judged == pytest.approx(told.held_out[0].loss, abs=1e-6)
