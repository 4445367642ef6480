"""decode_attention compiled ahead of time, without a GPU: what the launcher launches, exactly."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton exists on Linux only")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, make_backend  # noqa: E402
from triton.runtime.jit import create_function_from_signature  # noqa: E402

from harness import registry  # noqa: E402
from harness.errors import UnfitError  # noqa: E402
from harness.kernel import AotConfig  # noqa: E402
from harness.kernels.decode_attention import kernel  # noqa: E402
from harness.kernels.decode_attention.inputs import Inputs, make  # noqa: E402
from harness.launch import Launch, recording  # noqa: E402
from harness.target import TARGETS  # noqa: E402

SPEC = registry.kernel("decode_attention")
HOPPER = GPUTarget("cuda", 90, 32)


def without_data(shape: Mapping[str, int], dtype: torch.dtype) -> Inputs:
    return make(shape, dtype, torch.Generator(), "meta")


def specialised(launch: Launch) -> tuple[str, Any, Any, Any, Any]:
    """What Triton compiles for: (key, signature, constants, attributes, options)."""
    backend, function = make_backend(HOPPER), launch.function
    binder = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, _ = binder(*launch.args, **launch.kwargs)
    options, signature, constants, attributes = function._pack_args(
        backend, launch.kwargs, bound, specialization, None
    )
    return f"{specialization} {options}", signature, constants, attributes, options


@pytest.mark.parametrize(
    "config", [c for c in SPEC.aot if c.shape["H"] == 128 and c.options["splits"] > 1]
)
def test_compiles_for_hopper_without_a_gpu(
    config: AotConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path / "cache"))
    with recording(TARGETS["sm_90"]) as launches:
        kernel.decode_attention(*without_data(config.shape, torch.float16), **config.options)
    assert [launch.function for launch in launches] == [kernel._attend, kernel._merge]
    for launch in launches:
        _, signature, constants, attributes, options = specialised(launch)
        compiled = triton.compile(
            ASTSource(launch.function, signature, constants, attributes), HOPPER, options.__dict__
        )
        assert resources(compiled.asm["cubin"], tmp_path)["STACK"] == 0, "registers are spilled"
        if launch.function is kernel._attend:
            ptx = compiled.asm["ptx"]
            assert "mma.sync" in ptx, "no tensor cores"
            # Keys and values stream in 128-bit pieces, asynchronously, and in no smaller ones.
            assert len(re.findall(r"cp\.async\.cg\.shared\.global.*0x10", ptx)) >= 16
            assert not re.findall(r"ld\.global[^;]*\.b16", ptx)


def resources(cubin: bytes, folder: Path) -> dict[str, int]:
    """Registers, stack and shared memory of machine code, by the tool in Triton's package."""
    (folder / "kernel.cubin").write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    told = subprocess.run(
        [tool, "-res-usage", folder / "kernel.cubin"], capture_output=True, text=True, check=True
    ).stdout
    return {name: int(number) for name, number in re.findall(r"([A-Z]+):(\d+)", told)}


@pytest.mark.parametrize("block", [0, 16, 256], ids=["contiguous", "pages", "large-pages"])
def test_lengths_and_capacities_do_not_recompile(block: int) -> None:
    """One form that writes its output and one for several parts, whatever the lengths."""
    with recording(TARGETS["sm_90"]) as launches:
        for S in range(1, 3000, 7):
            shape = {"B": 4, "S": S, "N": 8, "K": 2, "H": 64, "block": block, "strided": 0}
            kernel.decode_attention(*without_data(shape, torch.float16), max_len=S)
    keys: dict[Any, set[str]] = {kernel._attend: set(), kernel._merge: set()}
    for launch in launches:
        keys[launch.function].add(specialised(launch)[0])
    # Contiguous slots shorter than a tile count as small pages, one form a size.
    short = 64 // 7 if block == 0 else 0
    assert len(keys[kernel._attend]) <= 2 + short
    assert len(keys[kernel._merge]) == 1


def test_a_cpu_is_refused_with_what_to_do() -> None:
    inputs = Inputs(
        torch.zeros(1, 2, 16),
        torch.zeros(1, 1, 4, 16),
        torch.zeros(1, 1, 4, 16),
        torch.zeros(1, 1, dtype=torch.int32),
        torch.ones(1, dtype=torch.int32),
        0.25,
    )
    with pytest.raises(
        UnfitError, match=r"needs a GPU, and its input is on 'cpu'.*TRITON_INTERPRET=1"
    ):
        kernel.decode_attention(*inputs)
