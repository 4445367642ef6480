"""Fixtures and the one place where tests for a device are skipped."""

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.registry import PluginFinder

MakePlugin = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where torch sees no device."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA or ROCm device on this machine"))


@pytest.fixture(scope="session", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sweeps of tests neither wait for nor stop the machine's real ones, nor each other's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_LOCK", str(tmp_path_factory.mktemp("lock") / "lock"))
        yield


@pytest.fixture(scope="session")
def example_sweep() -> ModuleType:
    """tests/example_sweep.py: a made-up sweep with every kind of row, and parts to make others."""
    return _beside("example_sweep")


@pytest.fixture
def fake_nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tests/fake_nvml.py's GPU in place of the module `pynvml`, which nothing imported keeps."""
    fake = _beside("fake_nvml").FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def _beside(name: str) -> ModuleType:
    """A file beside this one as a module."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_plugin(tmp_path: Path) -> Iterator[MakePlugin]:
    """make_plugin("folder", "name", slot="cache", options="size: int = 1") -> the plugin path.

    Writes a technique that leaves the plan as it is; `code` replaces its file. What was imported
    is forgotten when the test ends.
    """

    def make(
        path: str = "plugins",
        name: str = "extra",
        slot: str = "cache",
        options: str = "",
        apply: str = "plan",
        code: str | None = None,
    ) -> Path:
        folder = tmp_path / path / name
        folder.mkdir(parents=True, exist_ok=True)
        text = (
            code
            if code is not None
            else _PLUGIN.format(name=name, slot=slot.upper(), options=options, apply=apply)
        )
        (folder / "__init__.py").write_text(text)
        return tmp_path / path

    before = set(sys.modules)
    yield make
    for finder in [f for f in sys.meta_path if isinstance(f, PluginFinder)]:
        sys.meta_path.remove(finder)
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]


_PLUGIN = """
from dataclasses import replace
from harness.errors import UnfitError
from harness.plan import EnginePlan, Trait
from harness.technique import Exactness, Factory, Slot, Technique, TechniqueOptions

class Options(TechniqueOptions):
    "What a suite may set."
    {options}

def apply(plan, options):
    return {apply}

TECHNIQUE = Technique(
    name="{name}", title="A test's technique", slot=Slot.{slot}, compared_with=None,
    exactness=lambda options: Exactness.IDENTICAL, lecture="", papers=(), options=Options,
    apply=apply, cost=lambda cost, plan, options, batch: cost, reference="harness.errors:unknown",
)
"""
