"""What a spec's launchers launch, function by function: the units of ahead-of-time compilation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

from harness.aot.figures import FORMAT_VERSION, UnitName
from harness.errors import HarnessError
from harness.kernel import AotConfig, KernelSpec
from harness.launch import Launch, recording
from harness.target import Target
from harness.technique import load


@dataclass(frozen=True)
class Unit:
    """One Triton function with everything that decides its machine code."""

    name: UnitName
    function: Any  # triton.JITFunction
    signature: Mapping[str, str]  # argument -> type, "constexpr" for what is compiled in
    constants: Mapping[Any, Any]
    attributes: Mapping[Any, Any]  # divisibility and the like, by the argument's place
    options: Mapping[str, Any]  # warps, stages and what else the backend knows

    @property
    def pointers(self) -> list[str | None]:
        """Arguments that the machine code takes, in order; None for one that is no pointer."""
        return [
            name if kind.startswith("*") else None
            for name, kind in self.signature.items()
            if kind != "constexpr"
        ]

    @property
    def absent(self) -> tuple[str, ...]:
        """Arguments that are compiled in: constants, and what is None."""
        return tuple(name for name, kind in self.signature.items() if kind == "constexpr")

    @property
    def launch(self) -> dict[str, Any]:
        """Constants by name, warps and stages: what a reader needs to know it again."""
        names = list(self.signature)
        constants = {names[place[0]]: value for place, value in self.constants.items()}
        shown = {k: v for k, v in constants.items() if isinstance(v, int | float | bool | str)}
        return shown | {key: self.options[key] for key in ("num_warps", "num_stages")}

    @property
    def key(self) -> str:
        """SHA-256 of all that decides the machine code and how it is read."""
        content = {
            "source": self.function.cache_key,  # with what the function calls and its globals
            "signature": dict(self.signature),
            "constants": sorted((str(k), repr(v)) for k, v in self.constants.items()),
            "attributes": sorted((str(k), str(v)) for k, v in self.attributes.items()),
            "options": sorted((k, str(v)) for k, v in self.options.items()),
            "target": self.name.target,
            "triton": triton.__version__,
            "format": FORMAT_VERSION,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def launches(spec: KernelSpec, config: AotConfig, target: Target) -> list[Launch]:
    """What the launcher launches for a configuration on that target; nothing runs."""
    if spec.triton is None:
        return []
    dtype: torch.dtype = getattr(torch, config.dtype)
    inputs = load(spec.inputs)(config.shape, dtype, torch.Generator(), "meta")
    with recording(target) as found:
        load(spec.triton)(*inputs, **config.options)
    return found


def units(spec: KernelSpec, number: int, target: Target) -> list[Unit]:
    """The units of configuration `number` of a spec on a target.

    Raises:
        HarnessError: the launcher launches nothing, or a function that the spec makes no claims
            for, or one function twice.
    """
    launched = launches(spec, spec.aot[number], target)
    found = [specialised(spec.name, number, target, each) for each in launched]
    names = [unit.name.function for unit in found]
    if not names or len(set(names)) < len(names):
        raise HarnessError(f"kernel '{spec.name}' launches {names or 'nothing'} for aot[{number}]")
    unclaimed = sorted(set(names) - set(spec.claims))
    if unclaimed:
        raise HarnessError(
            f"kernel '{spec.name}' launches '{unclaimed[0]}' and claims nothing of it"
        )
    return found


def specialised(kernel: str, number: int, target: Target, launch: Launch) -> Unit:
    """A launch as Triton would compile it: the same specialisation as at run time."""
    backend, function = make_backend(triton_target(target)), launch.function
    binder = create_function_from_signature(function.signature, function.params, backend)
    kwargs = dict(launch.kwargs)
    bound, specialization, _ = binder(*launch.args, **kwargs)
    options, signature, constants, attributes = function._pack_args(
        backend, kwargs, bound, specialization, None
    )
    name = UnitName(kernel=kernel, config=number, target=target.arch, function=function.fn.__name__)
    return Unit(name, function, signature, constants, attributes, dict(options.__dict__))


def triton_target(target: Target) -> GPUTarget:
    """The same target as Triton names it."""
    if target.backend == "hip":
        return GPUTarget("hip", target.arch, target.warp)
    return GPUTarget("cuda", target.capability, target.warp)
