"""Predictions of workloads: the lecture's table, phases and bounds, and grids in no time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from harness import stack
from harness.errors import UsageError
from harness.hardware import catalogue
from harness.hardware.catalogue import Device
from harness.model import source
from harness.predict.forward import BOUNDS
from harness.predict.target import Target, by_datasheet
from harness.predict.workload import Prediction, generate

DEVICES = catalogue.shipped()
H100 = by_datasheet("h100-sxm", DEVICES["h100-sxm"])


def predict(
    spec: str,
    batch: object,
    prompt: object,
    new: object,
    model: str = "llama-2-13b",
    target: Target = H100,
) -> Prediction:
    parsed = stack.parse(spec)
    found = source.find(model, [choice.technique for choice in parsed.architecture])
    plan = stack.resolve(parsed, found, dtype="bfloat16", backend="torch", slots=1, max_tokens=256)
    return generate(plan, stack.techniques(parsed), batch, prompt, new, target)  # type: ignore[arg-type]


def test_the_lecture_s_table_is_the_floor_of_a_step() -> None:
    """CS336, lecture 10, S = 1024 on an H100: ms a step, tokens/s, and what fits into 80 GB."""
    for kv_heads, batch, latency_ms, tokens_per_s, fits in (
        (40, 1, 8.02, 125, True), (40, 64, 23.8, 2689, True), (40, 256, 71.9, 3562, False),
        (8, 64, 9.97, 6417, True), (8, 256, 19.6, 13068, True),
    ):  # fmt: skip
        spec = "mha" if kv_heads == 40 else f"gqa(kv_heads={kv_heads})"
        found = predict(spec, batch, 1024, 1)
        floor = float(found.memory_floor_seconds)
        assert floor * 1e3 == pytest.approx(latency_ms, rel=0.01)
        assert batch / floor == pytest.approx(tokens_per_s, rel=0.01)
        assert bool(batch <= found.largest_batch) == fits


def test_ridge_points_of_the_catalogue() -> None:
    """Lecture 2.1: 295 FLOPs a byte on an H100; 206 on an H200, 153 on an A100, 281 on a B200."""
    for name, ridge in (("h100-sxm", 295), ("h200-sxm", 206), ("a100-80", 153), ("b200", 281)):
        assert DEVICES[name].ridge("bfloat16") == pytest.approx(ridge, abs=1)


def test_prefill_computes_and_decode_moves() -> None:
    found = predict("mha", 1, 1024, 128)
    assert BOUNDS[int(found.prefill.binds)] == "compute"
    assert BOUNDS[int(found.decode.binds)] == "memory"
    assert found.ttft > found.tpot
    assert found.e2e == pytest.approx(found.ttft + 127 * found.tpot)
    assert found.throughput == pytest.approx(128 / found.e2e)


def test_batch_buys_throughput_and_fewer_heads_buy_batch() -> None:
    batch = np.array([1, 16, 64])
    mha, gqa = predict("mha", batch, 1024, 128), predict("gqa(kv_heads=8)", batch, 1024, 128)
    for found in (mha, gqa):
        assert (np.diff(found.throughput) > 0).all()
        assert (np.diff(found.tpot) > 0).all()
    assert (gqa.tpot < mha.tpot).all()
    assert (gqa.largest_batch / mha.largest_batch > 5).all()


def test_without_a_cache_the_time_a_token_grows_with_the_sequence() -> None:
    prompt = np.array([256, 512, 1024])
    kept, none = predict("mha", 1, prompt, 64), predict("mha+recompute", 1, prompt, 64)
    assert kept.tpot[-1] / kept.tpot[0] < 1.1
    assert none.tpot[-1] / none.tpot[0] > 2.5
    assert (none.state_bytes == 0).all()
    assert np.isinf(none.largest_batch).all()


def test_one_new_token_has_no_time_a_token() -> None:
    found = predict("mha", np.array([1, 2]), 64, 1)
    assert np.isnan(found.tpot).all()
    assert np.isfinite(found.ttft).all()
    assert found.e2e == pytest.approx(found.ttft)


def test_a_grid_is_what_its_points_are() -> None:
    batch, prompt = np.array([[1.0], [8.0]]), np.array([[64.0, 300.0, 1000.0]])
    whole = predict("gqa(kv_heads=8)", batch, prompt, 32)
    for i in range(2):
        for j in range(3):
            one = predict("gqa(kv_heads=8)", batch[i, 0], prompt[0, j], 32)
            for name in ("ttft", "tpot", "throughput", "state_bytes", "peak_bytes"):
                assert getattr(whole, name)[i, j] == pytest.approx(float(getattr(one, name))), name


def test_cost_and_energy_need_a_price_and_a_power_limit() -> None:
    found = predict("mha", 8, 256, 64, target=H100.priced(2.0))
    usd = found.usd_per_million_tokens
    assert usd is not None
    assert float(usd) == pytest.approx(2.0 / 3600 / float(found.throughput) * 1e6)
    joules = found.joules_per_token
    assert joules is not None
    assert float(joules) == pytest.approx(700 / float(found.throughput))
    assert predict("mha", 8, 256, 64).usd_per_million_tokens is None


def test_a_grid_of_a_thousand_cells_takes_a_few_cells_time() -> None:
    """Arrays, not a loop over points; `tests/acceptance/prediction_speed.py` has the seconds."""
    batch = 2.0 ** np.arange(10)[:, None]
    prompt = np.linspace(128, 32_768, 100)[None]

    def taken(batch: object, prompt: object) -> tuple[int, Prediction]:
        begun = time.process_time_ns()
        found = predict("gqa(kv_heads=8)", batch, prompt, 128, "llama-3-8b")
        return time.process_time_ns() - begun, found

    one = min(taken(8, 1024)[0] for _ in range(5))
    whole, found = min((taken(batch, prompt) for _ in range(5)), key=lambda each: each[0])
    assert found.throughput.shape == (10, 100)
    assert np.isfinite(found.throughput).all()
    assert whole < 20 * one


def test_a_datasheet_of_a_processor_predicts_nothing() -> None:
    device = Device.model_validate(
        {"name": "x", "arch": "x86_64", "kind": "cpu", "tflops": {"float32": 1}, "memory_gb": 1}
        | {"bandwidth_gb_s": 1, "l2_mb": 1, "multiprocessors": 1}
    )
    with pytest.raises(UsageError, match="'mine' is a processor, and none is predicted by its"):
        by_datasheet("mine", device)


def test_a_dtype_that_a_device_lacks_is_refused() -> None:
    t4 = by_datasheet("t4", DEVICES["t4"])
    with pytest.raises(UsageError, match="t4 has no rate for bfloat16, only for float16"):
        predict("mha", 1, 64, 8, target=t4)
