"""decode_attention compiled ahead of time, without a GPU: what the launcher launches, exactly.

The kernels are replaced by recorders and the tensors hold no data ("meta"), so that the launcher's
own arguments decide signature, constants and divisibility.
"""

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
from harness.kernels.decode_attention import kernel  # noqa: E402
from harness.kernels.decode_attention.inputs import Inputs  # noqa: E402

SPEC = registry.kernel("decode_attention")
HOPPER = GPUTarget("cuda", 90, 32)
Launch = tuple[tuple[Any, ...], dict[str, Any]]


class Recorder:
    """Stands in for a Triton function: keeps the arguments of each launch."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *args, **kwargs: self.launches.append((args, kwargs))


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Any, Recorder]]:
    """Name -> (the Triton function, its recorder)."""
    found = {name: (getattr(kernel, name), Recorder()) for name in ("_attend", "_merge")}
    for name, (_, recorder) in found.items():
        monkeypatch.setattr(kernel, name, recorder)
    return found


def without_data(shape: Mapping[str, int], dtype: torch.dtype, pages: int | None = None) -> Inputs:
    B, S, N, K, H = (shape[name] for name in ("B", "S", "N", "K", "H"))
    block = shape["block"] or S
    pages = pages or -(-S // block)
    pool = torch.empty(B * pages, K, block, H, dtype=dtype, device="meta")
    return Inputs(
        torch.empty(B, N, H, dtype=dtype, device="meta"),
        pool,
        pool,
        torch.empty(B, pages, dtype=torch.int32, device="meta"),
        torch.empty(B, dtype=torch.int32, device="meta"),
        H**-0.5,
    )


def specialised(function: Any, launch: Launch) -> tuple[str, Any, Any, Any, Any]:
    """What Triton compiles for: (key, signature, constants, attributes, options)."""
    backend = make_backend(HOPPER)
    args, kwargs = launch
    binder = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, _ = binder(*args, **kwargs)
    options, signature, constants, attributes = function._pack_args(
        backend, kwargs, bound, specialization, None
    )
    return f"{specialization} {options}", signature, constants, attributes, options


@pytest.mark.parametrize("shape", [s for s in SPEC.shapes["aot"] if s["H"] == 128])
def test_compiles_for_hopper_without_a_gpu(
    shape: Mapping[str, int],
    recorders: dict[str, tuple[Any, Recorder]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(triton.knobs.cache, "dir", str(tmp_path / "cache"))
    kernel.decode_attention(*without_data(shape, torch.float16), splits=4)
    for function, recorder in recorders.values():
        (launch,) = recorder.launches
        _, signature, constants, attributes, options = specialised(function, launch)
        compiled = triton.compile(
            ASTSource(function, signature, constants, attributes), HOPPER, options.__dict__
        )
        assert resources(compiled.asm["cubin"], tmp_path)["STACK"] == 0, "registers are spilled"
        if function is recorders["_attend"][0]:
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
def test_lengths_and_capacities_do_not_recompile(
    block: int, recorders: dict[str, tuple[Any, Recorder]]
) -> None:
    """One form that writes its output and one for several parts, whatever the lengths."""
    for S in range(1, 3000, 7):
        shape = {"B": 4, "S": S, "N": 8, "K": 2, "H": 64, "block": block}
        kernel.decode_attention(*without_data(shape, torch.float16), max_len=S)
    keys = {
        name: {specialised(function, launch)[0] for launch in recorder.launches}
        for name, (function, recorder) in recorders.items()
    }
    # Contiguous slots shorter than a tile count as small pages, one form a size.
    short = 64 // 7 if block == 0 else 0
    assert len(keys["_attend"]) <= 2 + short
    assert len(keys["_merge"]) == 1


def test_a_cpu_is_refused_with_what_to_do() -> None:
    inputs = Inputs(
        torch.zeros(1, 2, 16),
        torch.zeros(1, 1, 4, 16),
        torch.zeros(1, 1, 4, 16),
        torch.zeros(1, 1, dtype=torch.int32),
        torch.ones(1, dtype=torch.int32),
        0.25,
    )
    with pytest.raises(UnfitError, match=r"needs a GPU, and q is on 'cpu'.*TRITON_INTERPRET=1"):
        kernel.decode_attention(*inputs)
