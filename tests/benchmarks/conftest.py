"""Microbenchmarks of kernels, generated from their specs, through pytest-benchmark.

    pytest tests/benchmarks --benchmark-only                        all of them
    pytest tests/benchmarks --benchmark-only -k rms_norm            one kernel's
    pytest tests/benchmarks --benchmark-only --benchmark-json FILE  for other tools

They are for looking, not for keeping: what is stored and held against regression is the workload
`kernel` of a sweep (`suites/kernels.yaml`), which gates each run and replicates over processes. An
ordinary `pytest` calls the smallest shape of each kernel once, to see that this still works.
"""

from __future__ import annotations

import pytest


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Benchmarks run alone: two at once would time each other."""
    return 0 if config.getoption("benchmark_only") else None
