"""The README says what is there: its tree, its commands, and what they are called."""

import importlib.util
import re

import pytest
from typer.main import get_command

from harness import cli, paths

README = (paths.root() / "README.md").read_text()


def test_the_tree_is_the_tree() -> None:
    """`python tests/readme_tree.py --write` brings it up to date."""
    file = paths.root() / "tests" / "readme_tree.py"
    spec = importlib.util.spec_from_file_location("readme_tree", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.replaced(README) == README


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`harness ([a-z]+)", README))))
def test_every_command_that_is_named_exists(name: str) -> None:
    assert name in get_command(cli.build()).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("mark", ["sweep", "tests"])
def test_the_two_commands_stand_between_their_marks(mark: str) -> None:
    """`.ci/run` takes the second one from there."""
    block = README.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    assert block.count("```") == 2
    assert "pip install -q -c constraints.txt -e" in block
