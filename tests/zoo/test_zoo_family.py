"""The family of equal parameters, the listing, and what the command line refuses."""

import pytest

from harness.errors import UsageError
from harness.zoo import card, export, family, listing, rows
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


def test_every_architecture_is_below_the_bigram_bar_over_its_seeds() -> None:
    """Above it, differences would only show how fast an architecture begins to learn."""
    bar = card.read(export.MODELS / "equal0-mha").bigram
    assert {name: sum(found) / len(found) < bar for name, found in family.losses().items()} == {
        "mha": True,
        "gqa": True,
        "mqa": True,
    }


def test_a_difference_within_the_spread_of_the_seeds_is_none() -> None:
    noisy = family.difference([3.0, 3.1, 3.2], [3.05, 3.0, 3.1])
    assert noisy.value == pytest.approx(0.05)
    assert noisy.verdict == "none"
    # The same difference of means with seeds that agree is one.
    clear = family.difference([3.10, 3.101, 3.099], [3.05, 3.051, 3.049])
    assert clear.value == pytest.approx(0.05)
    assert clear.verdict == "worse"
    assert family.difference([3.05, 3.051, 3.049], [3.10, 3.101, 3.099]).verdict == "better"
    # Two-sample t: sd 0.001 each, 3 seeds, 4 degrees of freedom.
    assert clear.spread == pytest.approx(2.776 * 0.001 * (2 / 3) ** 0.5)


@pytest.mark.parametrize(("one", "other"), [([3.0], [3.0]), ([3.0, 3.1], [3.0, 3.1, 3.2])])
def test_a_difference_without_seeds_is_refused(one: list[float], other: list[float]) -> None:
    with pytest.raises(UsageError, match="the same number of both architectures"):
        family.difference(one, other)


def test_the_family_table_shows_spread_verdict_and_what_waits() -> None:
    text = family.render()
    found = family.losses()
    assert list(found) == ["mha", "gqa", "mqa"]
    for architecture in ("gqa", "mqa"):
        told = family.difference(found[architecture], found["mha"])
        assert f"{told.value:+.4f} +-{told.spread:.4f} | {told.verdict} |" in text
    for architecture in ("mla", "cla", "local", "mamba", "hybrid"):
        assert f"| {architecture} | | | | | cannot be trained yet: " in text


def test_the_readme_shows_the_family_and_the_costs_as_they_are() -> None:
    readme = (export.MODELS.parent / "README.md").read_text(encoding="utf-8")
    assert family.render() in readme


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
