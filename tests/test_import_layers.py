"""Imports go down, never up or sideways, and what a listing reads imports nothing heavy.

Read from the source text: every import counts, inside functions too; imports for type checking
alone do not. Names as strings ("module:attribute", resolved on use) are how a lower layer reaches a
higher one, and the engine and the model do not even name a technique that way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.paths import root

# Lowest first; what stands in one row knows nothing of its neighbours. A dotted name takes one
# module out of its package: records of borders, and what planning needs of models.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("analysis.student", "exit_codes", "paths"),
    ("errors",),
    ("records", "shape"),
    ("run", "technique"),
    ("cost", "metrics", "plan", "target"),
    ("fit", "kernel", "launch"),
    ("registry",),
    ("hardware.ceilings", "hardware.identity", "suite.document", "suite.points"),
    ("suite.case", "suite.slo", "suite.validation"),
    ("stacktext",),
    ("stack",),
    ("model.families", "model.fetched", "model.gguf", "model.presets"),
    ("model.config", "model.gguf_llama"),
    ("model.source",),
    ("worker.job",),
    ("suite",),
    ("kernels",),
    ("model",),
    ("engine",),
    ("techniques",),
    ("zoo",),
    ("hardware",),
    ("predict",),
    ("measure",),
    ("gates",),
    ("aot", "quality"),
    ("store", "worker"),
    ("sweep",),
    ("selftest",),
    ("analysis",),
    ("interop", "report"),
    ("cli",),
    ("__main__",),
)
LAYER = {unit: number for number, units in enumerate(LAYERS) for unit in units}
HEAVY = ("torch", "triton", "numpy", "transformers", "pandas", "matplotlib", "streamlit")
# What `harness --help`, `list`, `suite check` and planning import.
LIGHT = (
    "harness.cli",
    "harness.hardware.ceilings",
    "harness.hardware.identity",
    "harness.model.source",
    "harness.registry",
    "harness.run",
    "harness.stack",
    "harness.store.rows",
    "harness.suite",
    "harness.suite.loading",
    "harness.suite.planning",
    "harness.worker.job",
)


def _sources() -> dict[str, str]:
    """Source text of every module by the name it is imported under; packages end in nothing."""
    found = {}
    for top, package in (("harness", ""), ("techniques", "harness."), ("kernels", "harness.")):
        folder = root() / top
        for path in sorted(folder.rglob("*.py")):
            # The links below harness/ lead to the two other folders.
            if any(part.is_symlink() for part in path.parents if part != folder):
                continue
            parts = path.relative_to(root()).with_suffix("").parts
            name = package + ".".join(parts)
            found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """Every module of the product."""
    return _sources()


def imports(name: str, sources: Mapping[str, str], *, late: bool = True) -> Iterator[str]:
    """Modules that a module imports, ours by full name; `late` counts those inside functions."""
    is_package = any(other.startswith(f"{name}.") for other in sources)
    for node in _nodes(ast.parse(sources[name]), late):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = name.split(".")
                above = above[: len(above) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if inner in sources else base


def _nodes(node: ast.AST, late: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from (inner for other in child.orelse for inner in ast.walk(other))
            continue
        if not late and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from _nodes(child, late)


def unit(module: str) -> str | None:
    """The entry of LAYERS that a module of ours belongs to."""
    parts = module.split(".")[1:]
    for length in (2, 1):
        if ".".join(parts[:length]) in LAYER:
            return ".".join(parts[:length])
    return None


def wrong_imports(sources: Mapping[str, str]) -> list[str]:
    """Every import that does not go down, as a sentence."""
    found = []
    for name in sources:
        own = unit(name)
        if own is None:
            continue
        for target in imports(name, sources):
            other = unit(target) if target.startswith("harness.") else None
            if other is not None and other != own and LAYER[other] >= LAYER[own]:
                found.append(f"{name} imports {target}, but {own} is no layer above {other}")
    return found


def heavy_imports(start: str, sources: Mapping[str, str]) -> list[str]:
    """Ways in which importing `start` imports something heavy."""
    found, seen = [], set()
    waiting = [(start, start)]
    while waiting:
        name, way = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name.partition(".")[0] in HEAVY:
            found.append(way)
        # A module's packages are imported before it.
        parts = name.split(".")
        packages = [".".join(parts[:n]) for n in range(1, len(parts))]
        following = list(imports(name, sources, late=False)) if name in sources else []
        waiting += [(target, f"{way} > {target}") for target in following]
        waiting += [(package, f"{way} > {package}") for package in packages if package in sources]
    return found


def test_every_module_has_a_layer(sources: dict[str, str]) -> None:
    """A new package needs a row in LAYERS: decide what it may know."""
    assert [name for name in sources if name != "harness" and unit(name) is None] == []


def test_every_layer_is_there(sources: dict[str, str]) -> None:
    there = {unit(name) for name in sources}
    assert set(LAYER) - there == set()


def test_imports_go_down(sources: dict[str, str]) -> None:
    assert wrong_imports(sources) == []


@pytest.mark.parametrize("package", ["harness.engine", "harness.model"])
def test_engine_and_model_name_no_technique(sources: dict[str, str], package: str) -> None:
    """Baselines are techniques like all others."""
    own = [name for name in sources if f"{name}.".startswith(f"{package}.")]
    assert len(own) > 5
    for name in own:
        strings = [
            node.value
            for node in ast.walk(ast.parse(sources[name]))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        assert [text for text in strings if "harness.techniques" in text] == [], name


def test_what_a_listing_reads_is_light(sources: dict[str, str]) -> None:
    packages = [
        name
        for name in sources
        if name.startswith(("harness.techniques.", "harness.kernels.")) and name.count(".") == 2
    ]
    assert len(packages) > 7
    for name in [*LIGHT, *packages]:
        assert name in sources
        assert heavy_imports(name, sources) == []


def test_a_technique_knows_no_other_technique(sources: dict[str, str]) -> None:
    """Adding or removing one touches no other; a name as a string is resolved on use."""
    for name in sources:
        if not name.startswith("harness.techniques."):
            continue
        own = ".".join(name.split(".")[:3])
        others = [
            target
            for target in imports(name, sources)
            if target.startswith("harness.techniques.") and not f"{target}.".startswith(f"{own}.")
        ]
        assert others == [], name


def test_there_are_no_packages_beside_harness() -> None:
    """A top-level `kernels` is another project's package, and transformers imports it."""
    for folder in ("kernels", "techniques"):
        assert not (root() / folder / "__init__.py").exists()
        assert (root() / "harness" / folder).resolve() == (root() / folder).resolve()
        assert Path(root() / "harness" / folder).is_symlink()


MADE_UP = {
    "harness": "",
    "harness.errors": "",
    "harness.model": "",
    "harness.model.layers": "import torch",
    "harness.model.source": "from harness.errors import UsageError",
    "harness.engine": "",
    "harness.engine.store": "from harness.model import layers",
}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("import harness.engine.store", 1),
        ("from harness.engine import store", 1),
        ("from harness.engine.store import Store", 1),
        ("from ..engine import store", 1),
        ("def late():\n    from harness.engine import store", 1),
        ("if x:\n    import harness.engine.store", 1),
        ("if TYPE_CHECKING:\n    import harness.engine.store", 0),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import harness.engine.store", 1),
        ("from . import layers", 0),
        ("from harness.errors import UsageError", 0),
        ("import torch", 0),
    ],
)
def test_a_wrong_import_is_seen(text: str, wrong: int) -> None:
    assert len(wrong_imports({**MADE_UP, "harness.model.new": text})) == wrong


@pytest.mark.parametrize(
    ("text", "heavy"),
    [
        ("import torch.nn", True),
        ("from harness.model import layers", True),
        ("from harness.model.source import find", False),
        ("def late():\n    import torch", False),
        ("class Late:\n    import torch", True),
        ("if TYPE_CHECKING:\n    import torch", False),
    ],
)
def test_a_heavy_import_is_seen(text: str, heavy: bool) -> None:
    made = {**MADE_UP, "harness.techniques.new": text}
    assert bool(heavy_imports("harness.techniques.new", made)) is heavy
