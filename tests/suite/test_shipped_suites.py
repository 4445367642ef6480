"""The suites that ship with the project hold what the README says of them."""

from __future__ import annotations

import pytest

from harness import paths
from harness.suite import cases, load, shipped, with_profile
from harness.suite.schema import PROFILES, Suite


@pytest.mark.parametrize("name", shipped())
def test_every_suite_is_named_as_its_file_and_documented(name: str) -> None:
    suite = load(name)
    assert suite.suite == name
    assert suite.about
    assert f"| `{name}` |" in (paths.suites() / "README.md").read_text()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", shipped())
def test_every_case_of_every_suite_can_run(name: str, profile: str) -> None:
    planned = cases(load(name), "cpu" if profile == "cpu" else "cuda")
    assert [entry.unsupported for entry in planned if entry.unsupported] == []


def test_decode_spans_what_it_must() -> None:
    """At least 30 cases, 3 stacks, 3 batch sizes, lengths of 1,024 and more, on trained models."""
    planned = cases(load("decode"), "cpu")
    assert len(planned) >= 30
    assert len({entry.case.label for entry in planned}) >= 3
    assert len({entry.case.generated.batch for entry in planned}) >= 3
    assert max(entry.case.generated.prompt_tokens for entry in planned) >= 1024
    assert all(entry.case.checkpoint_hash for entry in planned)


def test_decode_has_a_line_to_fit_for_every_stack() -> None:
    """Time per token against length needs at least three lengths at one batch."""
    planned = cases(load("decode"), "cpu")
    for stack in {entry.case.label for entry in planned}:
        lengths = {
            entry.case.generated.prompt_tokens
            for entry in planned
            if entry.case.label == stack and entry.case.generated.batch == 1
        }
        assert len(lengths) >= 3


def test_every_key_is_in_the_readme() -> None:
    readme = (paths.suites() / "README.md").read_text()
    assert [key for key in Suite.model_fields if f"| `{key}` |" not in readme] == []


def test_quick_is_quick() -> None:
    """Three seconds a process: at most a dozen of them end in under a minute."""
    suite = with_profile(load("quick"), "cpu")
    assert len(cases(suite, "cpu")) * suite.measure.rounds <= 12
    assert suite.measure.max_seconds <= 1
