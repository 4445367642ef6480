"""Fixtures and the one place where tests for a device are skipped."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu` where torch sees no device."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA or ROCm device on this machine"))


@pytest.fixture(scope="session")
def example_sweep() -> ModuleType:
    """tests/example_sweep.py: a made-up sweep with every kind of row, and parts to make others."""
    spec = spec_from_file_location("example_sweep", Path(__file__).with_name("example_sweep.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
