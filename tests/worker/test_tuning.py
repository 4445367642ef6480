"""Tuning: right before quick, the default unless another beats it, and a table launchers read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from harness import cli, launch, registry
from harness.errors import HarnessError, InfrastructureError
from harness.kernels.rms_norm.eager import rms_norm
from harness.worker.tuning import Bench, Tuned, write

SPEC = registry.kernel("rms_norm")
SHAPES = SPEC.shapes["test"][:2]  # of one bucket each
Times = Callable[[dict[str, int]], float]


class Timed:
    """Samples that follow from the configuration alone."""

    how, count = "calls", 1

    def __init__(self, calls: Sequence[partial[Any]], times: Times) -> None:
        self._calls, self._times = calls, times
        self.last = len(calls) - 1

    def sample(self, turn: int | None = None) -> float:
        return self._times(self._calls[0].keywords["config"])

    def again(self) -> Any:
        return self._calls[self.last]()


def bench(times: Times, call: Callable[..., Any] | None = None) -> Bench:
    def right(*inputs: Any, config: dict[str, int]) -> Any:
        return rms_norm(*inputs)

    return Bench(SPEC, call or right, lambda calls: Timed(calls, times), arch="sm_90", device="cpu")


def by_warps(config: dict[str, int]) -> float:
    return 100.0 / config["num_warps"]


def tuned(made: Bench, shape: int = 1) -> Tuned:
    (row,) = made.tune(["float32"], [SHAPES[shape]])
    return row


def test_the_quickest_wins_and_the_row_says_for_what() -> None:
    row = tuned(bench(by_warps))
    most = max(each.config["num_warps"] for each in row.tried)
    assert row.config["num_warps"] == most
    assert (row.arch, row.dtype, row.bucket) == ("sm_90", "float32", "D256-few")
    assert row.gain == pytest.approx(most / row.tried[0].config["num_warps"])
    assert len(row.tried) > 3
    assert all(each.refused is None for each in row.tried)


def test_within_the_noise_the_default_stays() -> None:
    row = tuned(bench(lambda config: 100.0 - 0.1 * config["num_warps"]))
    assert row.config == row.tried[0].config
    assert row.gain == 1.0


@pytest.mark.parametrize("fault", ["scaled", "unwritten", "raising"])
def test_a_planted_wrong_configuration_is_refused_however_quick(fault: str) -> None:
    def call(*inputs: Any, config: dict[str, int]) -> Any:
        out = rms_norm(*inputs)
        assert isinstance(out, torch.Tensor)
        if config["num_warps"] != 8:
            return out
        if fault == "raising":
            raise RuntimeError("out of resource: shared memory\nmore")
        return out * 1.01 if fault == "scaled" else torch.empty_like(out)

    row = tuned(bench(by_warps, call))
    refused = {each.config["num_warps"]: each.refused for each in row.tried if each.refused}
    assert set(refused) == {8}
    assert all(each.ns is None for each in row.tried if each.refused)
    said = {"scaled": "wrong: numeric_max", "unwritten": "wrong: numeric_max",
            "raising": "RuntimeError: out of resource: shared memory"}[fault]  # fmt: skip
    assert str(refused[8]).startswith(said)
    assert row.config["num_warps"] != 8


def test_a_configuration_that_is_wrong_only_when_repeated_does_not_win() -> None:
    """Asynchronous matrix units race: right once, wrong under load."""
    calls: list[int] = []

    def call(*inputs: Any, config: dict[str, int]) -> Any:
        out = rms_norm(*inputs)
        assert isinstance(out, torch.Tensor)
        calls.append(config["num_warps"])
        return out.flip(0) * 2 if config["num_warps"] == 8 and calls.count(8) > 1 else out

    assert tuned(bench(by_warps, call)).config["num_warps"] != 8


def test_nothing_right_gives_no_row() -> None:
    def wrong(*inputs: Any, config: dict[str, int]) -> Any:
        return torch.zeros_like(inputs[0])

    assert list(bench(by_warps, wrong).tune(["float32"], SHAPES)) == []


def test_a_bucket_is_tuned_at_the_shape_that_moves_most() -> None:
    found = bench(by_warps).buckets(SPEC.shapes["bench"])
    assert found["D4096-many"] == {"T": 8192, "D": 4096, "residual": 1, "strided": 0}


def test_launchers_read_the_table_and_fall_back_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rms_norm").mkdir()
    monkeypatch.setattr(launch, "_KERNELS", tmp_path)
    file = launch.table_file("rms_norm")
    row = tuned(bench(by_warps))
    write(file, [row], {"device": "a device"})
    write(file, [tuned(bench(by_warps), shape=0)], {"device": "a device"})
    launch._table.cache_clear()
    try:
        assert launch.tuned("rms_norm", "sm_90", "float32", "D256-few") == row.config
        assert launch.tuned("rms_norm", "sm_90", "float32", "D3-few") is not None
        for arch, dtype, bucket in (
            ("sm_120", "float32", "D256-few"), ("sm_90", "float16", "D256-few"),
            ("sm_90", "float32", "D512-few"),
        ):  # fmt: skip
            assert launch.tuned("rms_norm", arch, dtype, bucket) is None
    finally:
        launch._table.cache_clear()
    write(file, [row], {"device": "another"})
    rows = json.loads(file.read_text())["rows"]
    assert [(each["bucket"], each["device"]) for each in rows] == [
        ("D256-few", "another"), ("D3-few", "a device")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["rms_norm", "--target", "sm_90"], 2, "it can only be done on the machine at hand"),
        (["rms_norn"], 2, "unknown kernel 'rms_norn'; did you mean 'rms_norm'?"),
        (["linear"], 2, "kernel 'linear' has no Triton form: there is nothing to compile or tune"),
        (["rms_norm", "--dtype", "bf16"], 2, "unknown dtype 'bf16'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_a_sentence(
    arguments: list[str], code: int, sentence: str
) -> None:
    with pytest.raises(HarnessError) as caught:
        CliRunner().invoke(cli.build(), ["kernels", "tune", *arguments], catch_exceptions=False)
    assert caught.value.exit_code == code
    assert sentence in str(caught.value)


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InfrastructureError, match="there is no GPU on this machine") as caught:
        CliRunner().invoke(cli.build(), ["kernels", "tune", "rms_norm"], catch_exceptions=False)
    assert caught.value.exit_code == 4
