"""The workflows: linted, pinned, on actions that still run, with commands that exist here."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from harness.cli import build
from harness.paths import root

FOLDER = root() / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
BIN = Path(sys.executable).parent
# Older majors run on a Node that GitHub has taken away.
OLDEST = {
    "actions/checkout": 5,
    "actions/setup-python": 6,
    "actions/upload-artifact": 6,
    "actions/cache/restore": 5,
    "actions/cache/save": 5,
}
LINTERS = {
    "actionlint": ["actionlint", "-config-file", str(root() / ".github" / "actionlint.yaml")],
    "check-jsonschema": ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
    "zizmor": ["zizmor", "--offline", "--quiet", "--no-config"],
}
GOOD = """
name: good
on: push
permissions: {contents: read}
jobs:
  one:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2
        with: {persist-credentials: false}
      - run: echo "$TITLE"
        env: {TITLE: "${{ github.event.head_commit.message }}"}
"""


def _lint(linter: str, *files: Path) -> subprocess.CompletedProcess[str]:
    name, *options = LINTERS[linter]
    command = [str(BIN / name), *options, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, cwd=root())


@pytest.mark.parametrize("linter", list(LINTERS))
def test_linters_find_nothing(linter: str) -> None:
    assert {file.name for file in WORKFLOWS} == {"ci.yml", "nightly.yml", "pr.yml"}
    done = _lint(linter, *WORKFLOWS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("linter", "right", "wrong"),
    [
        ("actionlint", "ubuntu-24.04", "gpu-of-nobody"),
        ("actionlint", "actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2",
         "actions/checkout@v4"),
        ("check-jsonschema", "runs-on: ubuntu-24.04", "runs_on: ubuntu-24.04"),
        ("zizmor", 'echo "$TITLE"', "echo ${{ github.event.head_commit.message }}"),
        ("zizmor", "de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2", "main"),
    ],
)  # fmt: skip
def test_linters_find_a_planted_fault(linter: str, right: str, wrong: str, tmp_path: Path) -> None:
    """The twin that must fail, beside the one that must not."""
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    for name, text in (("good.yml", GOOD), ("bad.yml", GOOD.replace(right, wrong))):
        (folder / name).write_text(text)
    assert GOOD.replace(right, wrong) != GOOD
    good = _lint(linter, folder / "good.yml")
    assert good.returncode == 0, good.stdout + good.stderr
    assert _lint(linter, folder / "bad.yml").returncode != 0


def test_actions_are_pinned_to_commits_of_versions_that_still_run() -> None:
    used = [
        (match["action"], match["ref"], match["major"])
        for file in WORKFLOWS
        for match in re.finditer(
            r"uses: (?P<action>\S+)@(?P<ref>\S+)(?: # v(?P<major>\d+)\.\d+\.\d+)?$",
            file.read_text(),
            re.MULTILINE,
        )
    ]
    assert len(used) == sum(file.read_text().count("uses:") for file in WORKFLOWS) > 5
    for action, ref, major in used:
        assert re.fullmatch("[0-9a-f]{40}", ref), f"{action} is not pinned"
        assert int(major) >= OLDEST[action], f"{action} v{major}"
    assert len({(action, ref) for action, ref, _ in used}) == len({a for a, _, _ in used})


def _steps(file: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(file.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


def _readme(mark: str) -> str:
    text = (root() / "README.md").read_text()
    block = text.partition(f"<!-- {mark} -->")[2].partition(f"<!-- /{mark} -->")[0]
    return block.replace("```sh", "").replace("```", "").strip()


def test_runners_install_as_the_readme_does() -> None:
    install, _, rest = _readme("sweep").rpartition(" && ")
    assert rest.startswith("harness sweep")
    runs = [step["run"].strip() for file in WORKFLOWS for step in _steps(file)
            if step.get("name") == "Install"]  # fmt: skip
    assert runs == [install, install]
    (ci,) = [step["run"] for step in _steps(FOLDER / "ci.yml") if "run" in step]
    assert ci == ".ci/run"
    assert "<!-- tests -->" in (root() / ".ci" / "run").read_text()


def _commands() -> list[tuple[str, list[str]]]:
    """Every `harness` command of the workflows and of the README's section on them."""
    found = []
    texts = {file.name: "\n".join(s.get("run", "") for s in _steps(file)) for file in WORKFLOWS}
    texts["README.md"] = _readme("nightly")
    for name, text in texts.items():
        whole = text.replace("\\\n", " ")
        for line in whole.splitlines():
            command = re.search(r"(?:^|[;&|] |\s)harness ([a-z].*)", line.split("#")[0])
            if command:
                plain = re.sub(r"\s*(\|\||&&|;|>).*", "", command[1])
                words = shlex.split(plain.replace('"${confirm[@]}"', "--confirm x.json"))
                found.append((name, words))
    return found


def test_commands_of_workflows_exist_with_their_options() -> None:
    commands = _commands()
    assert {words[0] for _, words in commands} >= {"sweep", "regress", "confirm", "compare", "db"}
    for name, words in commands:
        command: Any = get_command(build())
        rest = list(words)
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        assert len(rest) < len(words), f"{name}: there is no 'harness {words[0]}'"
        # An option that there is not raises.
        command.make_context("harness", rest)


def test_an_option_that_there_is_not_would_be_seen() -> None:
    command: Any = get_command(build())
    with pytest.raises(Exception, match="No such option: --bugdet"):
        command.commands["sweep"].make_context("sweep", ["decode", "--bugdet", "2h"])


def test_suites_of_workflows_exist() -> None:
    suites = {file.stem for file in (root() / "suites").glob("*.yaml")}
    nightly = yaml.safe_load((FOLDER / "nightly.yml").read_text())
    assert set(nightly["jobs"]["night"]["strategy"]["matrix"]["suite"]) <= suites
    compared = [words for name, words in _commands() if name == "pr.yml"]
    assert compared[0][4] in suites


def test_every_end_of_a_night_is_told_apart() -> None:
    """edtechre/pybroker#287: a leg that measured nothing must not pass, nor be read as a
    regression."""
    text = (FOLDER / "nightly.yml").read_text()
    assert "if: steps.look.outputs.code == '1'" in text
    assert 'run: exit "${CODE:-4}"' in text
    assert 'case "$code" in 0 | 1 | 3) ;; *) exit "$code" ;; esac' in text
