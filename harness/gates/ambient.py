"""The state of PyTorch that belongs to nobody: who changes it, changes everybody's arithmetic.

A technique that turns TF32 on would make the reference as loose as itself, and one that takes more
threads than its row says would be compared with others that do not. What is known before an engine
is built must hold after it ran, and holds while references run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from harness.gates.tolerance import CPU_TIME_FACTOR
from harness.gates.verdict import verdict
from harness.run import GateResult

State = Mapping[str, Any]


@dataclass(frozen=True)
class _Setting:
    """One switch of the process."""

    read: Callable[[], Any]
    write: Callable[[Any], object]


def _attribute(owner: Any, name: str) -> _Setting:
    return _Setting(lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


_CUDA, _CUDNN = torch.backends.cuda.matmul, torch.backends.cudnn
_MKLDNN: Any = torch.backends.mkldnn  # its type stubs know no `matmul`
# Written in this order: the precision of all backends, then that of each.
_SETTINGS = {
    "threads": _Setting(torch.get_num_threads, torch.set_num_threads),
    "default dtype": _Setting(torch.get_default_dtype, torch.set_default_dtype),
    "grad mode": _Setting(torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic algorithms": _Setting(
        torch.are_deterministic_algorithms_enabled,
        lambda on: torch.use_deterministic_algorithms(
            on, warn_only=torch.is_deterministic_algorithms_warn_only_enabled()
        ),
    ),
    "float32 matmul precision": _Setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    ),
    "cuda.matmul.fp32_precision": _attribute(_CUDA, "fp32_precision"),
    "mkldnn.matmul.fp32_precision": _attribute(_MKLDNN.matmul, "fp32_precision"),
    "cuda.matmul.allow_fp16_reduced_precision_reduction": _attribute(
        _CUDA, "allow_fp16_reduced_precision_reduction"
    ),
    "cuda.matmul.allow_bf16_reduced_precision_reduction": _attribute(
        _CUDA, "allow_bf16_reduced_precision_reduction"
    ),
    "cuda.matmul.allow_fp16_accumulation": _attribute(_CUDA, "allow_fp16_accumulation"),
    "cudnn.deterministic": _attribute(_CUDNN, "deterministic"),
    "cudnn.benchmark": _attribute(_CUDNN, "benchmark"),
}


def state() -> State:
    """Every setting as it is now."""
    return {name: setting.read() for name, setting in _SETTINGS.items()}


@contextmanager
def restored(wanted: State) -> Iterator[None]:
    """Inside, the settings are the wanted ones; afterwards what they were."""
    found = state()
    _write(wanted)
    try:
        yield
    finally:
        _write(found)


def _write(wanted: State) -> None:
    """Only what differs: some settings may not be touched without a need."""
    for name, setting in _SETTINGS.items():
        if setting.read() != wanted[name]:
            setting.write(wanted[name])


def check_ambient(before: State, after: State, *, name: str = "ambient") -> GateResult:
    """Hold the settings to what they were before the engine was built."""
    changed = [
        f"{setting} was {was} and is {after[setting]}"
        for setting, was in before.items()
        if after[setting] != was
    ]
    detail = "; ".join(changed) or f"{len(before)} settings of PyTorch are as they were"
    return verdict(name, len(changed), 0, "settings changed", detail)


def check_cpu_time(cpu_seconds: float, wall_seconds: float, threads: int) -> GateResult:
    """Hold the CPU time of the timed window to the threads that the case says it uses."""
    return verdict(
        "ambient_cpu",
        cpu_seconds / wall_seconds if wall_seconds > 0 else 0.0,
        threads * CPU_TIME_FACTOR,
        "CPU time/time",
        f"{cpu_seconds:.3f} s of CPU time in {wall_seconds:.3f} s, with {threads} threads allowed",
    )
