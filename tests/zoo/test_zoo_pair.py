"""Growing, cutting and distilling: a start changes no function, a teacher is followed, and
acceptance is the overlap of two distributions."""

from pathlib import Path

import pytest
import torch

from harness.errors import UsageError
from harness.zoo import card, export, network, pair, rows, start, stream, table, train

SMALL = table.Architecture(layers=2, heads=4, kv_heads=2, width=32, ff=64, head_dim=8, vocab=64)
BUDGET = table.Budget(steps=40, learning_rate=1e-2, step_tokens=128, short=32, long=32, warmup=4)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one model, which the table names "base"."""
    entry = table.Entry("base", "a model for tests", SMALL, BUDGET)
    monkeypatch.setattr(rows, "TABLE", (entry,))
    net = network.build(SMALL, seed=3)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(4)
    export.write(tmp_path / "base", net)
    return tmp_path


def grown(layers: tuple[int | None, ...]) -> table.Entry:
    architecture = table.Architecture(**{**vars(SMALL), "layers": len(layers)})
    return table.Entry(
        "grown", "for tests", architecture, BUDGET, start=table.Start("base", layers)
    )


def test_a_grown_model_computes_what_it_was_grown_from(models: Path) -> None:
    tokens = torch.arange(20)[None]
    base = start.read("base", models)
    net = start.weights(grown((0, None, 1, None)), models)
    with torch.inference_mode():
        assert torch.equal(net(tokens), base(tokens))
    # The new layers learn: only what writes into the stream is zero.
    found = dict(net.named_parameters())
    assert found["layers.1.mlp.gate_proj.weight"].abs().min() > 0
    assert found["layers.1.mlp.down_proj.weight"].abs().max() == 0
    assert found["layers.3.self_attn.o_proj.weight"].abs().max() == 0


def test_a_cut_model_has_the_layers_named(models: Path) -> None:
    base = dict(start.read("base", models).named_parameters())
    found = dict(start.weights(grown((1,)), models).named_parameters())
    assert torch.equal(found["layers.0.mlp.up_proj.weight"], base["layers.1.mlp.up_proj.weight"])
    assert torch.equal(found["embed_tokens.weight"], base["embed_tokens.weight"])


def test_a_start_that_is_not_trained_is_refused(tmp_path: Path) -> None:
    entry = rows.get("draft")
    with pytest.raises(UsageError, match="no weights at"):
        start.weights(entry, tmp_path)


def test_other_weights_to_start_from_are_another_recipe(models: Path) -> None:
    entry = grown((0, 1))
    before = start.recipe(entry, models)
    export.write(models / "base", network.build(SMALL, seed=4))
    assert start.recipe(entry, models) != before


def test_distillation_follows_the_teacher_where_the_text_says_otherwise(models: Path) -> None:
    """With weight 1 the text's tokens do not matter; with weight 0 the teacher does not."""
    teacher = start.read("base", models)
    tokens = torch.randint(0, 64, (4, 32), generator=torch.Generator().manual_seed(0))
    batch = stream.Batch(tokens=tokens, targets=torch.zeros_like(tokens))

    def trained(weight: float) -> network.Network:
        net = network.build(SMALL, seed=0)
        optimizer = train.make_optimizer(net, BUDGET)
        guide = train.Guide(teacher, weight)
        for step in range(BUDGET.steps):
            train.train_step(net, optimizer, BUDGET, batch, step, guide)
        return net

    def far(net: network.Network) -> float:
        with torch.inference_mode():
            return train.divergence(teacher, net(tokens), batch).item()

    untrained = far(network.build(SMALL, seed=0))
    assert far(trained(1.0)) < 0.8 * untrained
    assert far(trained(0.0)) > untrained


def test_acceptance_is_the_overlap_of_the_distributions(models: Path) -> None:
    base = start.read("base", models)
    windows = torch.randint(0, 64, (6, 33), generator=torch.Generator().manual_seed(1))
    same = pair.compare("base", base, base, windows)
    assert same.acceptance == pytest.approx(1, abs=1e-5)
    assert same.agreement == 1
    assert same.divergence == pytest.approx(0, abs=1e-5)
    assert same.gap == pytest.approx(0, abs=1e-6)
    other = network.build(SMALL, seed=9)
    told = pair.compare("base", base, other, windows)
    with torch.inference_mode():
        p = base(windows[:, :-1]).double().softmax(-1)
        q = other(windows[:, :-1]).double().softmax(-1)
    assert told.acceptance == pytest.approx(torch.minimum(p, q).sum(-1).mean().item(), abs=1e-5)
    assert told.target_entropy == pytest.approx(-(p * p.log()).sum(-1).mean().item(), abs=1e-5)
    assert told.divergence == pytest.approx((p * (p / q).log()).sum(-1).mean().item(), abs=1e-5)
    assert told.acceptance < 0.9 < same.acceptance


def test_the_committed_pair_is_a_large_and_a_small_model() -> None:
    """The first study's target only tied its draft; such a pair shows nothing."""
    target = card.read(export.MODELS / "target")
    draft = card.read(export.MODELS / "draft")
    assert draft.pair is not None
    assert target.held_out[0].loss <= 2.95
    assert draft.held_out[0].loss <= 3.10
    assert draft.held_out[0].loss - target.held_out[0].loss >= 0.15
    assert draft.pair.gap >= 0.15
    assert draft.pair.target == "target"
    assert 0.5 < draft.pair.acceptance < 1
    assert 2 * draft.parameters < target.parameters


def test_the_target_gains_from_what_came_before() -> None:
    told = card.read(export.MODELS / "target")
    for losses in told.held_out:
        assert losses.by_position["128-256"] < losses.by_position["16-64"]
    assert told.by_context is not None
    # Of the same tokens: it uses some 48 tokens before them. More of them change nothing that the
    # figure shows, so techniques for long contexts are judged on the needle models.
    assert told.by_context["240"] < told.by_context["16"] - 0.02
