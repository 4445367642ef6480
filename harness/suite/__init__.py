"""YAML to a validated Suite to Cases, with overrides and the case hash. Imports nothing heavy.

    suite = override(load("suites/decode.yaml"), ["workload.batch=1,8"])
    for planned in cases(suite, "cpu", only=["gqa*"]): ...

These names are resolved on use: `harness.stack` and the worker read `harness.suite.case` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.suite.loading import load, shipped
    from harness.suite.planning import Planned, cases
    from harness.suite.schema import Profile, Suite, json_schema
    from harness.suite.settings import override, with_profile

__all__ = [
    "Planned",
    "Profile",
    "Suite",
    "cases",
    "json_schema",
    "load",
    "override",
    "shipped",
    "with_profile",
]

_WHERE = {
    "loading": ("load", "shipped"),
    "planning": ("Planned", "cases"),
    "schema": ("Profile", "Suite", "json_schema"),
    "settings": ("override", "with_profile"),
}


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
