"""The registry: names without imports, one sentence for whatever is wrong with a plugin."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UsageError
from harness.technique import BASELINES, Slot, Technique, TechniqueOptions

MakePlugin = Callable[..., Path]


@pytest.mark.parametrize("name", registry.names())
def test_every_technique_keeps_the_contract(name: str) -> None:
    technique = registry.get(name)
    assert technique.name == name
    assert technique.title
    assert technique.about
    assert technique.options().non_default() == {}
    descriptions = [info.description for info in technique.options.model_fields.values()]
    assert all(descriptions), "every option has a text"
    if technique.compared_with is not None:
        assert registry.get(technique.compared_with).slot is technique.slot


def test_baselines_are_techniques_of_their_slot() -> None:
    assert {slot: registry.get(name).slot for slot, name in BASELINES.items()} == {
        slot: slot for slot in Slot
    }


def test_techniques_import_nothing_heavy() -> None:
    """Every `__init__.py` of a technique or kernel is torch-free; heavy parts are named as text."""
    code = (
        "import json, sys\n"
        "from harness import registry\n"
        "for name in registry.names(): registry.get(name)\n"
        "for name in registry.kernel_names(): registry.kernel(name)\n"
        "print(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"torch", "triton", "numpy", "pandas", "sqlalchemy"} & set(json.loads(done.stdout))


def test_names_import_nothing(make_plugin: MakePlugin) -> None:
    path = make_plugin(code="raise RuntimeError('imported')")
    assert "extra" in registry.names([path])
    registry.install([path])
    assert "harness.techniques.extra" not in sys.modules


def test_plugin_path_is_a_folder_of_techniques_or_one_technique(make_plugin: MakePlugin) -> None:
    path = make_plugin(name="first")
    make_plugin(name="second")
    assert registry.get("first", [path]).name == "first"
    assert registry.get("second", [path / "second"]).name == "second"


def test_plugin_is_importable_with_its_submodules_and_sys_path_stays(
    make_plugin: MakePlugin,
) -> None:
    path = make_plugin()
    (path / "extra" / "part.py").write_text("from harness.techniques.extra import TECHNIQUE\n")
    before = list(sys.path)
    registry.install([path])
    part = import_module("harness.techniques.extra.part")
    assert part.TECHNIQUE is registry.get("extra")
    assert sys.path == before


def test_installing_twice_adds_one_finder(make_plugin: MakePlugin) -> None:
    path = make_plugin()
    registry.install([path])
    registry.install([path])
    finders = [f for f in sys.meta_path if isinstance(f, registry.PluginFinder)]
    assert len(finders) == 1


def test_another_path_replaces_a_plugin_of_that_name(make_plugin: MakePlugin) -> None:
    one = make_plugin("one", slot="cache")
    other = make_plugin("other", slot="weights")
    assert registry.get("extra", [one]).slot is Slot.CACHE
    assert registry.get("extra", [other]).slot is Slot.WEIGHTS


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "line 1 of __init__.py: ModuleNotFoundError: No module named"),
        ("x = 1\ndef f(:\n", "line 2 of __init__.py: SyntaxError: invalid syntax"),
        ("raise ValueError('a\\nb')", "line 1 of __init__.py: ValueError: a\\nb"),
        ("import sys\nsys.exit('bye')", "line 2 of __init__.py: SystemExit: bye"),
        ("TECHNIQUE = 3", "does not set TECHNIQUE = Technique(...)"),
        ("", "does not set TECHNIQUE = Technique(...)"),
    ],
)
def test_broken_plugin_is_one_sentence_and_stops_no_other(
    make_plugin: MakePlugin, code: str, reason: str
) -> None:
    path = make_plugin(code=code)
    make_plugin(name="good")
    for _ in range(2):  # a failed import leaves nothing behind that changes the second answer
        with pytest.raises(UsageError) as caught:
            registry.get("extra", [path])
        assert reason in str(caught.value)
        assert "'extra'" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert registry.get("good", [path]).name == "good"
    assert registry.get("gqa", [path]).name == "gqa"


def test_plugin_must_call_itself_as_its_folder(make_plugin: MakePlugin) -> None:
    path = make_plugin(name="right")
    (path / "right").rename(path / "wrong")
    with pytest.raises(UsageError, match=r"'wrong' in folder .* calls itself 'right'"):
        registry.get("wrong", [path])


def test_option_without_default_is_refused(make_plugin: MakePlugin) -> None:
    path = make_plugin(options="size: int")
    with pytest.raises(UsageError, match="option 'size' has no default"):
        registry.get("extra", [path])


def test_a_name_in_two_places_is_refused_when_named(make_plugin: MakePlugin) -> None:
    path = make_plugin(name="gqa")
    with pytest.raises(UsageError, match=r"'gqa' is found in two places, folder .* and folder .*"):
        registry.get("gqa", [path])
    assert registry.get("mha", [path]).name == "mha"


def test_a_name_in_two_plugin_paths_is_refused_when_named(make_plugin: MakePlugin) -> None:
    paths = [make_plugin("one"), make_plugin("other")]
    with pytest.raises(UsageError, match="'extra' is found in two places"):
        registry.get("extra", paths)
    assert registry.get("mha", paths).name == "mha"


def test_the_same_path_twice_is_one_place(make_plugin: MakePlugin) -> None:
    path = make_plugin()
    assert registry.get("extra", [path, path / "extra", f"{path}/"]).name == "extra"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "plugin path '.*missing' is not a folder"),
        ("x" * 5000, "plugin path '.*' is not a folder"),
        ("empty", "plugin path '.*empty' holds no technique"),
        ("Bad-Name", "plugin path '.*Bad-Name' cannot name a technique"),
    ],
)
def test_bad_plugin_paths(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "empty" / "no_technique").mkdir(parents=True)
    (tmp_path / "Bad-Name").mkdir()
    (tmp_path / "Bad-Name" / "__init__.py").touch()
    for function in (registry.names, registry.install):
        with pytest.raises(UsageError, match=reason):
            function([tmp_path / path])


def test_a_plugin_path_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another user's ended `harness list techniques` in a traceback."""

    plain = Path.is_file

    def refuse(path: Path) -> bool:
        if path.is_relative_to(tmp_path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(UsageError, match=r"plugin path '.*' cannot be read: Permission denied"):
        registry.names([tmp_path])


def test_unknown_name_gets_the_closest_one(make_plugin: MakePlugin) -> None:
    with pytest.raises(UsageError, match="unknown technique 'gqaa'; did you mean 'gqa'"):
        registry.get("gqaa")
    with pytest.raises(UsageError, match="did you mean 'extra'"):
        registry.get("extr", [make_plugin()])
    with pytest.raises(UsageError, match=r"unknown technique '\.\./mha'"):
        registry.get("../mha")


def test_entry_points_are_found_loaded_when_named_and_duplicates_refused(
    monkeypatch: pytest.MonkeyPatch, make_plugin: MakePlugin
) -> None:
    registry.install([make_plugin(name="installed")])
    group = registry.ENTRY_POINT_GROUP
    points = (
        EntryPoint("from_package", "harness.techniques.installed:TECHNIQUE", group),
        EntryPoint("missing", "no_such_package:TECHNIQUE", group),
        EntryPoint("mha", "harness.techniques.installed:TECHNIQUE", group),
    )
    monkeypatch.setattr(registry, "_entry_points", lambda: points)
    assert {"from_package", "missing", "mha"} <= set(registry.names())
    with pytest.raises(UsageError, match=r"'from_package' in the entry point .* calls itself"):
        registry.get("from_package")
    with pytest.raises(UsageError, match="'missing' cannot be imported from the entry point"):
        registry.get("missing")
    with pytest.raises(UsageError, match=r"'mha' is found in two places, .* the entry point"):
        registry.get("mha")
    assert registry.get("gqa").name == "gqa"


def test_an_entry_point_that_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "harness.techniques.gqa"
    point = EntryPoint("gqa", f"{module}:TECHNIQUE", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: (point,))
    monkeypatch.setattr(registry, "_BUILT_IN", Path("/nonexistent"))
    found = registry.get("gqa")
    assert isinstance(found, Technique)
    assert issubclass(found.options, TechniqueOptions)


def test_unknown_kernel_gets_the_closest_one() -> None:
    with pytest.raises(
        UsageError, match="unknown kernel 'decode'; did you mean 'decode_attention'"
    ):
        registry.kernel("decode")


@pytest.mark.parametrize("name", registry.kernel_names())
def test_every_kernel_spec_is_named_as_its_folder(name: str) -> None:
    assert registry.kernel(name).name == name
