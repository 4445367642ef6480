"""The family of equal parameters, the listing, and what the command line refuses."""

import pytest

from harness.zoo import card, export, family, listing, rows, seeds
from harness.zoo.__main__ import main

MEMBERS = [entry for entry in rows.TABLE if entry.name.startswith(family.PREFIX)]


def test_members_differ_in_architecture_and_seed_alone() -> None:
    assert [entry.name for entry in MEMBERS] == [
        f"equal{seed}-{architecture}" for seed in range(3) for architecture in ("mha", "gqa", "mqa")
    ]
    for entry in MEMBERS:
        budget = {name: value for name, value in vars(entry.budget).items() if name != "seed"}
        first = {name: value for name, value in vars(MEMBERS[0].budget).items() if name != "seed"}
        assert budget == first
        assert entry.name.startswith(f"equal{entry.budget.seed}-")
    sizes = {card.read(export.MODELS / entry.name).parameters for entry in MEMBERS}
    assert max(sizes) < 1.001 * min(sizes)


def test_every_member_is_below_the_bigram_bar() -> None:
    """Above it, differences would only show how fast an architecture begins to learn."""
    bar = card.read(export.MODELS / "equal0-mha").bigram
    found = family.losses()
    assert list(found) == ["mha", "gqa", "mqa"]
    assert max(loss for losses in found.values() for loss in losses) < bar


def test_a_difference_within_the_spread_of_the_seeds_is_none() -> None:
    noisy = seeds.difference([3.0, 3.1, 3.2], [3.05, 3.0, 3.1])
    assert noisy.value == pytest.approx(0.05)
    assert family.verdict(noisy) == "none"
    # The same difference of means with seeds that agree is one.
    clear = seeds.difference([3.10, 3.101, 3.099], [3.05, 3.051, 3.049])
    assert clear.value == pytest.approx(0.05)
    assert family.verdict(clear) == "worse"
    other_way = seeds.difference([3.05, 3.051, 3.049], [3.10, 3.101, 3.099])
    assert family.verdict(other_way) == "better"
    # Two-sample t: sd 0.001 each, 3 seeds, 4 degrees of freedom.
    assert clear.spread == pytest.approx(2.776445 * 0.001 * (2 / 3) ** 0.5, rel=1e-6)
    # Unequal numbers of seeds: 2 and 3, 3 degrees, the variances weighted 1 to 2.
    uneven = seeds.difference([1.0, 3.0], [0.0, 1.0, 2.0])
    pooled = (1 * 2.0 + 2 * 1.0) / 3
    assert uneven.spread == pytest.approx(3.182446 * (pooled * (1 / 2 + 1 / 3)) ** 0.5, rel=1e-6)


def test_one_seed_tells_nothing_however_large_the_difference() -> None:
    alone = seeds.difference([3.0], [9.0, 9.1])
    assert (alone.spread, alone.told) == (None, False)


def test_the_family_table_shows_spread_verdict_and_what_waits() -> None:
    text = family.render()
    found = family.losses()
    assert list(found) == ["mha", "gqa", "mqa"]
    for architecture in ("gqa", "mqa"):
        told = seeds.difference(found[architecture], found["mha"])
        assert f"{told.value:+.4f} +-{told.spread:.4f} | {family.verdict(told)} |" in text
    for architecture in ("mla", "cla", "local", "mamba", "hybrid"):
        assert f"| {architecture} | | | | | cannot be trained yet: " in text


def test_the_readme_shows_the_family_and_the_costs_as_they_are() -> None:
    readme = (export.MODELS.parent / "README.md").read_text(encoding="utf-8")
    assert family.render() in readme
    seconds, _, _ = listing.cost()
    assert f"took {seconds:,.0f} CPU-seconds, {seconds / 3600:.2f} hours" in " ".join(
        readme.split()
    )


def test_the_readme_quotes_the_pair_as_the_drafts_card_does() -> None:
    told = card.read(export.MODELS / "draft").pair
    assert told is not None
    readme = (export.MODELS.parent / "README.md").read_text(encoding="utf-8")
    assert (
        f"acceptance {told.acceptance:.3f} and greedy agreement {told.agreement:.3f} at losses of "
        f"{told.target_loss:.3f} and {told.draft_loss:.3f} nats and an entropy of "
        f"{told.target_entropy:.3f} in the target ({told.windows} held-out windows"
    ) in " ".join(readme.split())


def test_the_list_names_every_model_and_slot_and_sums_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list"]) == 0
    text = capsys.readouterr().out
    for entry in rows.TABLE:
        assert f"\n{entry.name} " in text
    for slot in rows.SLOTS:
        assert f"{slot.name}: cannot be trained yet, {slot.reason}" in text
    seconds, _, weights = listing.cost()
    assert f"{seconds:,.0f} CPU-s" in text
    assert f"{weights / 1e6:.1f} of 60 MB" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train"], "train needs the name of a model, or --all"),
        (["train", "target", "--all"], "--all trains every model; 'target' names one"),
        (["train", "equal-mamba"], "zoo model 'equal-mamba' cannot be trained yet: "),
        (["train", "drafft"], "unknown zoo model 'drafft'; did you mean 'draft'?"),
    ],
)
def test_what_cannot_be_trained_gets_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"harness.zoo: {sentence}")
    assert error.count("\n") == 1
