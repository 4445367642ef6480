"""Kernels compiled without a GPU: green as they are, red with what was planted in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton exists on Linux only")

import triton

from harness import registry
from harness.aot import build as building
from harness.aot.build import build
from harness.aot.figures import Compiled
from harness.aot.gate import judge
from harness.aot.machine import compiled, figures
from harness.aot.units import Unit, units
from harness.errors import HarnessError
from harness.kernel import KernelSpec
from harness.run import GateResult
from harness.target import TARGETS

SPEC = registry.kernel("decode_attention")
# The function that reads keys and values and multiplies them.
ATTEND = next(name for name, claims in SPEC.claims.items() if claims.tensor_cores)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path / "triton"))


def attend(target: str, head_dim: int = 128) -> Unit:
    """The attention function of the first configuration with this head dimension."""
    number = next(i for i, c in enumerate(SPEC.aot) if c.shape["H"] == head_dim)
    found = units(SPEC, number, TARGETS[target])
    return next(unit for unit in found if unit.name.function == ATTEND)


def judged(unit: Unit) -> dict[str, GateResult]:
    """The gates of a unit, compiled here."""
    described = Compiled(
        unit=unit.name, title="a configuration", sizes={}, options={}, dtype="bfloat16",
        figures=figures([compiled(unit)])[0],
    )  # fmt: skip
    return {gate.name: gate for gate in judge(described, SPEC.claims[unit.name.function])}


def doubled(unit: Unit) -> Unit:
    """The same function with every block size doubled, as a careless change would leave it."""
    names = list(unit.signature)
    constants: Mapping[Any, Any] = {
        place: 2 * value if names[place[0]].startswith("BLOCK_") else value
        for place, value in unit.constants.items()
    }
    return replace(unit, constants=constants)


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_what_ships_is_green(target: str) -> None:
    gates = judged(attend(target))
    assert [gate.detail for gate in gates.values() if not gate.passed] == []
    assert {"spills", "shared_memory", "vector_loads_k", "vector_loads_v", "tensor_cores"} <= set(
        gates
    )


def test_a_planted_spill_is_red_and_names_kernel_target_and_figure() -> None:
    gate = judged(doubled(doubled(attend("sm_80"))))["spills"]
    assert not gate.passed
    assert gate.observed is not None
    assert gate.observed > 0
    assert f"decode_attention {ATTEND} on sm_80" in gate.detail
    assert f"{gate.observed:.0f} bytes a thread" in gate.detail


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_planted_loss_of_vectorisation_is_red_and_names_kernel_target_and_figure(
    target: str,
) -> None:
    """Divisibility dropped: the loads of keys and values become as narrow as their elements."""
    gates = judged(replace(attend(target), attributes={}))
    for name in ("k", "v"):
        gate = gates[f"vector_loads_{name}"]
        assert not gate.passed
        assert f"decode_attention {ATTEND} on {target}" in gate.detail
        assert "loads of 16 bits" in gate.detail


def test_shared_memory_beyond_the_target_is_red() -> None:
    """Ten stages of keys and values fit Hopper and not a consumer device."""
    deep = replace(attend("sm_89"), options={**attend("sm_89").options, "num_stages": 10})
    gate = judged(deep)["shared_memory"]
    assert not gate.passed
    assert gate.bound == 99 * 1024


def test_a_product_without_matrix_units_is_red() -> None:
    described = Compiled(
        unit=attend("sm_90").name, title="", sizes={}, options={}, dtype="bfloat16",
        figures=figures([compiled(attend("sm_90"))])[0].model_copy(update={"tensor_core": {}}),
    )  # fmt: skip
    claims = SPEC.claims[ATTEND]
    red = [gate.name for gate in judge(described, claims) if not gate.passed]
    assert red == ["tensor_cores"]
    exact = described.model_copy(update={"dtype": "float32"})
    assert all(gate.passed for gate in judge(exact, claims)), "float32 uses none, by contract"


def one(spec: KernelSpec = SPEC, **changes: Any) -> KernelSpec:
    """The spec with one configuration alone, which launches one function."""
    whole = next(config for config in spec.aot if config.options.get("splits") == 1)
    return replace(spec, aot=(whole,), **changes)


def test_what_is_cached_is_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    target = TARGETS["sm_90"]
    first = build([one()], [target], folder=tmp_path, workers=1, progress=lambda *n: told.append(n))
    assert told == [(1, 1)]
    assert first[0].figures is not None

    def nobody(*_: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(building, "_start", nobody)
    assert build([one()], [target], folder=tmp_path) == first
    (file,) = tmp_path.glob("*.json")
    file.write_text("{}")
    with pytest.raises(AssertionError, match="a worker was started"):
        build([one()], [target], folder=tmp_path, workers=1)


def test_the_key_follows_all_that_decides_the_code() -> None:
    unit = attend("sm_90")
    others = [
        attend("sm_80"),
        attend("sm_90", head_dim=64),
        doubled(unit),
        replace(unit, attributes={}),
        replace(unit, options={**unit.options, "num_stages": 2}),
    ]
    assert unit.key == attend("sm_90").key
    assert len({unit.key, *(other.key for other in others)}) == 6


def test_a_compiler_that_dies_costs_the_unit_it_died_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that ends without an answer is replaced, and its units are tried one by one."""
    asked: list[int] = []

    class Dead:
        def poll(self) -> int:
            return 1

        def wait(self) -> int:
            return -6

        def communicate(self) -> None:
            """Nothing is left of it."""

    def dies(_worker: object, names: list[object]) -> None:
        asked.append(len(names))

    monkeypatch.setattr(building, "_start", lambda *_: Dead())
    monkeypatch.setattr(building, "_ask", dies)
    # Not split, so that each launches one function.
    whole = [config for config in SPEC.aot if config.options.get("splits") == 1]
    spec = replace(SPEC, aot=tuple(whole[:2]))
    done = build([spec], [TARGETS["sm_90"]], folder=tmp_path, workers=1)
    assert asked == [2, 1, 1]
    assert [each.error for each in done] == ["the compiler ended with status -6"] * 2
    gates = judge(done[0], SPEC.claims[ATTEND])
    assert [(gate.name, gate.passed) for gate in gates] == [("compiles", False)]


def test_a_target_that_cannot_have_a_configuration_says_why(tmp_path: Path) -> None:
    config = replace(SPEC.aot[0], unsupported={"sm_80": "float8 needs sm_89"})
    done = build([replace(SPEC, aot=(config,))], [TARGETS["sm_80"]], folder=tmp_path)
    assert [each.unsupported for each in done] == ["float8 needs sm_89"]
    assert judge(done[0], SPEC.claims[ATTEND]) == []


def test_a_function_without_claims_is_refused() -> None:
    with pytest.raises(HarnessError, match=f"'{ATTEND}' and claims nothing of it"):
        units(one(claims={}), 0, TARGETS["sm_90"])
