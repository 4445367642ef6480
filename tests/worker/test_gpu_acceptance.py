"""The suite for a GPU's acceptance: all of it planned, and its whole path run in small shapes."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import pytest

from harness import registry
from harness.hardware.ceilings import Ceilings
from harness.paths import root
from harness.suite import cases, load, with_profile
from harness.suite.case import Case, MeasureSettings
from harness.suite.points import KernelPoint
from harness.sweep.expect import expect
from harness.worker import run
from harness.worker.job import Job

SMALL = [entry.case for entry in cases(load("gpu-acceptance"), "cpu")]
# The reviewer's minutes: pytest -m gpu takes the others of eight.
BUDGET_S = 300


def kernel_point(case: Case) -> KernelPoint:
    assert isinstance(case.workload, KernelPoint)
    return case.workload


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.title.replace(" ", "-"))
def test_the_path_of_every_kernel_in_a_small_shape(case: Case) -> None:
    limits = Ceilings(bandwidth_bytes_per_s=1e15, flops_per_s={"float32": 1e15}, source="measured")
    measure = MeasureSettings(max_seconds=0.02, precision=0.5)
    gate = load("gpu-acceptance").gate
    record = run(
        Job(case=case, measure=measure, gate=gate, seed=0, round=0, order_slot=0, ceilings=limits)
    )
    assert (record.status, record.reason) == ("ok", None)
    found = {metric.name: metric for metric in record.metrics}
    assert found["bandwidth_fraction"].value
    assert found["roofline_fraction"].value
    for peer in kernel_point(case).peers:
        metric = found[f"speedup_{peer}"]
        assert (metric.value is None) == bool(metric.null_reason)
    assert any(found[f"speedup_{peer}"].value for peer in kernel_point(case).peers)


def test_every_kernel_is_measured_on_a_gpu_and_beside_something() -> None:
    planned = [kernel_point(entry.case) for entry in cases(load("gpu-acceptance"), "cuda")]
    triton = {name for name in registry.kernel_names() if registry.kernel(name).triton}
    assert {point.kernel for point in planned} == triton, "name a new kernel in the suite"
    assert {point.kernel for point in planned if point.peers} == triton
    # The sizes that the kernels' own targets are stated at.
    decode = {"B": 64, "S": 8192, "N": 32, "K": 8, "H": 128}
    assert any(p.kernel == "decode_attention" and decode.items() <= p.sizes.items()
               and "flash" in p.peers for p in planned)  # fmt: skip
    assert any(p.kernel == "prefill_attention" and p.sizes["S"] == 8192 and "flash" in p.peers
               for p in planned)  # fmt: skip
    assert {point.kernel for point in map(kernel_point, SMALL)} == triton


def test_a_round_of_it_is_expected_to_fit_the_budget() -> None:
    suite = load("gpu-acceptance")
    planned = cases(suite, "cuda")
    expected = expect(planned, with_profile(suite, "cuda").measure, "cuda", {})
    assert sum(each.seconds or 0.0 for each in expected.values()) <= BUDGET_S


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = root() / "tests" / "acceptance" / "gpu.py"
    spec = spec_from_file_location("gpu_acceptance_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("kernel", "at", "shares", "flash", "said"),
    [
        ("decode_attention", "DECODE", {"bandwidth_fraction": 0.86}, (1.1, 1.0, 1.2), []),
        ("decode_attention", "DECODE", {"bandwidth_fraction": 0.84}, (1.1, 1.0, 1.2),
         ["bandwidth_fraction 0.84 is below 0.85"]),
        ("decode_attention", "DECODE", {}, (1.1, 1.0, 1.2),
         ["bandwidth_fraction None is below 0.85"]),
        ("prefill_attention", "PREFILL", {"matrix_fraction": 0.44}, (0.9, 0.89, 0.91),
         ["matrix_fraction 0.44 is below 0.45",
          "torch's flash backend takes 0.900 of its time"]),
        ("prefill_attention", "PREFILL", {"matrix_fraction": 0.5}, (0.99, 0.97, 1.01), []),
        ("prefill_attention", "DECODE", {"matrix_fraction": 0.1}, (0.99, None, None),
         ["torch's flash backend takes 0.990 of its time"]),
        ("rms_norm", "DECODE", {}, (0.5, 0.4, 0.6), []),
    ],
)  # fmt: skip
def test_targets_are_missed_by_numbers_and_by_their_absence(
    script: ModuleType,
    kernel: str,
    at: str,
    shares: dict[str, float],
    flash: tuple[float, float | None, float | None],
    said: list[str],
) -> None:
    sizes = getattr(script, at)
    assert list(script.misses(kernel, sizes, shares, {"flash": flash})) == said


def test_the_suite_has_the_sizes_that_targets_are_stated_at(script: ModuleType) -> None:
    """Else a target that nobody measures would pass."""
    planned = [kernel_point(entry.case) for entry in cases(load("gpu-acceptance"), "cuda")]
    for kernel, at in (("decode_attention", script.DECODE), ("prefill_attention", script.PREFILL)):
        meant = [p for p in planned if p.kernel == kernel and at.items() <= p.sizes.items()]
        assert len(meant) == 2, "contiguous and in pages"
        assert all("flash" in p.peers and "cudnn" in p.peers for p in meant)


def test_what_is_carried_to_a_machine_without_a_registry_is_what_is_pinned_here() -> None:
    def pins(file: str) -> set[str]:
        lines = (root() / file).read_text().splitlines()
        named = [line.split(";")[0].strip() for line in lines if line and line[0] != "#"]
        return {line.lower().replace("_", "-") for line in named}

    carried = pins("requirements-carry.txt")
    assert len(carried) == 10
    assert carried <= pins("constraints.txt")
