"""Which techniques and kernels there are: found by folder name, imported only when named.

Techniques have three places: folders of `techniques/`, the entry-point group `harness.techniques`
of installed distributions, and plugin paths (a folder of technique folders, or one technique's
folder). A plugin that cannot be imported is an error of its own name and stops no other.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UsageError, printable, printable_path, unknown
from harness.kernel import KernelSpec
from harness.technique import Technique, TechniqueOptions

ENTRY_POINT_GROUP = "harness.techniques"
_PACKAGE = "harness.techniques"
_BUILT_IN = Path(__file__).parent / "techniques"
_KERNELS = Path(__file__).parent / "kernels"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def names(plugin_paths: Sequence[str | Path] = ()) -> list[str]:
    """Every technique's name, sorted, without importing one. Plugin paths installed before count
    too. UsageError for a bad plugin path."""
    found = {path.name for path in _folders_in(_BUILT_IN)} | {p.name for p in _entry_points()}
    return sorted(found | set(_plugins(plugin_paths)) | set(_finder().folders))


def get(name: str, plugin_paths: Sequence[str | Path] = ()) -> Technique[Any]:
    """The technique of that name, imported now. Plugin paths installed before count too.

    Raises UsageError for an unknown name, for one found in two places, and for a plugin that
    cannot be imported or breaks the contract; each is one sentence that says where.
    """
    install(plugin_paths)
    places = _places(name)
    if not places:
        raise unknown("technique", name, names())
    if len(places) > 1:
        where = " and ".join(_shown(place) for place in places)
        raise UsageError(f"technique '{name}' is found in two places, {where}; rename one of them")
    return _checked(name, _import(name, places[0]), _shown(places[0]))


def install(plugin_paths: Sequence[str | Path]) -> None:
    """Make `harness.techniques.<name>` importable for every technique of these paths.

    Nothing is imported and `sys.path` stays as it is: the import system is given one finder, which
    knows the folders by name. A name that another path gave before moves to the new folder.
    """
    if not plugin_paths:
        return
    finder = _finder()
    if finder not in sys.meta_path:
        sys.meta_path.append(finder)
    for name, folders in _plugins(plugin_paths).items():
        if finder.folders.get(name, folders) != folders:
            _forget(f"{_PACKAGE}.{name}")
        finder.folders[name] = folders


@dataclass(eq=False)
class PluginFinder(MetaPathFinder):
    """Finds `harness.techniques.<name>` in the folders of plugin paths."""

    folders: dict[str, tuple[Path, ...]] = field(default_factory=dict)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (the import system's signature)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec of a plugin's package; its submodules are found the ordinary way."""
        package, _, name = fullname.rpartition(".")
        if package != _PACKAGE or name not in self.folders:
            return None
        folder = self.folders[name][0]
        return spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


def _finder() -> PluginFinder:
    """The finder that the import system holds, or a new one that it does not hold yet."""
    for finder in sys.meta_path:
        if isinstance(finder, PluginFinder):
            return finder
    return PluginFinder()


def _forget(module: str) -> None:
    """Drop a module and what lies below it, so that the next import reads the new folder."""
    for loaded in [m for m in sys.modules if m == module or m.startswith(f"{module}.")]:
        del sys.modules[loaded]


def _plugins(plugin_paths: Sequence[str | Path]) -> dict[str, tuple[Path, ...]]:
    """Technique folders of plugin paths by name; more than one where two paths hold a name."""
    found: dict[str, tuple[Path, ...]] = {}
    for given in plugin_paths:
        path = Path(given)
        if not os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises for a name too long)
            raise UsageError(f"plugin path '{printable_path(given)}' is not a folder")
        path = path.resolve()
        try:
            alone = (path / "__init__.py").is_file()
            folders = [path] if alone else _folders_in(path)
        except OSError as error:
            raise UsageError(
                f"plugin path '{printable_path(given)}' cannot be read: {error.strerror}"
            ) from error
        if alone and not _NAME.fullmatch(path.name):
            raise UsageError(
                f"plugin path '{printable_path(given)}' cannot name a technique: a technique's "
                "folder is named in lower-case letters, digits and underscores"
            )
        if not folders:
            raise UsageError(
                f"plugin path '{printable_path(given)}' holds no technique: it must be a folder "
                "with an __init__.py, or hold such folders"
            )
        for folder in folders:
            if folder not in found.get(folder.name, ()):
                found[folder.name] = (*found.get(folder.name, ()), folder)
    return found


def _folders_in(path: Path) -> list[Path]:
    """Technique folders directly below a path."""
    if not path.is_dir():
        return []
    folders = (p for p in path.iterdir() if _NAME.fullmatch(p.name))
    return sorted(p for p in folders if (p / "__init__.py").is_file())


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Entry points of installed distributions, which do not change while a process runs."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _places(name: str) -> list[Path | EntryPoint]:
    """Every place that offers the name."""
    places: list[Path | EntryPoint] = []
    built_in = _BUILT_IN / name
    if _NAME.fullmatch(name) and (built_in / "__init__.py").is_file():
        places.append(built_in.resolve())
    places += [point for point in _entry_points() if point.name == name]
    places += [path for path in _finder().folders.get(name, ()) if path not in places]
    return places


def _shown(place: Path | EntryPoint) -> str:
    if isinstance(place, EntryPoint):
        return f"the entry point {place.value}"
    return f"folder {place}"


def _import(name: str, place: Path | EntryPoint) -> Any:
    """The object that should be a Technique. Whatever a plugin's code raises is one sentence."""
    try:
        if isinstance(place, EntryPoint):
            return place.load()
        return getattr(import_module(f"{_PACKAGE}.{name}"), "TECHNIQUE", None)
    except (Exception, SystemExit) as error:
        reason = printable(f"{type(error).__name__}: {error}", limit=200)
        line = _line_in_plugin(error, place)
        raise UsageError(
            f"technique '{name}' cannot be imported from {_shown(place)}{line}: {reason}"
        ) from error


def _line_in_plugin(error: BaseException, place: Path | EntryPoint) -> str:
    """The deepest line of the plugin's own code, ", line 12 of __init__.py", or nothing."""
    if isinstance(error, SyntaxError) and error.filename:
        return f", line {error.lineno} of {Path(error.filename).name}"
    found = ""
    trace = error.__traceback__
    while trace is not None and isinstance(place, Path):
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.resolve().is_relative_to(place):
            found = f", line {trace.tb_lineno} of {file.name}"
        trace = trace.tb_next
    return found


def _checked(name: str, technique: Any, where: str) -> Technique[Any]:
    """The technique, held to what the registry relies on."""
    if not isinstance(technique, Technique):
        raise UsageError(
            f"technique '{name}' in {where} does not set TECHNIQUE = Technique(...) in __init__.py"
        )
    if technique.name != name:
        raise UsageError(
            f"technique '{name}' in {where} calls itself '{printable(technique.name)}'; "
            "both names must be equal"
        )
    options = technique.options
    if not (isinstance(options, type) and issubclass(options, TechniqueOptions)):
        raise UsageError(f"technique '{name}' in {where}: its options are no TechniqueOptions")
    required = [key for key, info in options.model_fields.items() if info.is_required()]
    if required:
        raise UsageError(
            f"technique '{name}' in {where}: option '{required[0]}' has no default; "
            "a stack may name a technique without options"
        )
    return technique


def kernel_names() -> list[str]:
    """Every kernel's name, sorted, without importing one."""
    return [path.name for path in _folders_in(_KERNELS)]


def kernel(name: str) -> KernelSpec:
    """The spec of the kernel of that name. UsageError with the closest name otherwise."""
    if name not in kernel_names():
        raise unknown("kernel", name, kernel_names())
    try:
        spec = import_module(f"harness.kernels.{name}").SPEC
    except Exception as error:
        reason = printable(f"{type(error).__name__}: {error}", limit=200)
        raise UsageError(f"kernel '{name}' cannot be imported: {reason}") from error
    if not isinstance(spec, KernelSpec):
        raise UsageError(f"kernel '{name}' does not set SPEC = KernelSpec(...) in __init__.py")
    return spec
