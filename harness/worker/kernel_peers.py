"""Other makers' implementations beside a kernel: laid out, checked, and ready to be timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from harness.errors import UnfitError
from harness.kernel import KernelSpec, Peer
from harness.run import GateResult
from harness.suite.kernels import OWN
from harness.technique import load

# What is wrong with the outputs on the checked inputs, as the numeric gate says it.
Judge = Callable[[Any], Sequence[GateResult]]
Found = Callable[[], Peer]


def ready(
    spec: KernelSpec, names: Sequence[str], fresh: Callable[[], Any], sets: Sequence[Any],
    judge: Judge | None,
) -> tuple[dict[str, list[partial[Any]]], dict[str, str]]:  # fmt: skip
    """Calls of every peer on the timed inputs, and why there are none of the others.

    A peer that gives wrong outputs is no peer: a ratio to it would say nothing.

    Args:
        names: as the case lists them.
        fresh: draws the inputs that `judge` knows the right outputs of.
        sets: inputs that are timed.
        judge: None leaves peers unchecked.
    """
    calls: dict[str, list[partial[Any]]] = {}
    reasons: dict[str, str] = {}
    try:
        timed = [made(spec, inputs) for inputs in sets]
    except UnfitError as error:
        timed = []
        reasons = {name: str(error) for name in names if name != OWN}
    for name in names:
        if name in reasons:
            continue
        try:
            found = list(_of(spec, name, sets, timed))
            if judge is not None:
                inputs = fresh()
                peer = one(spec, name, inputs)
                wrong = [gate for gate in judge(peer.outputs(peer.call())) if not gate.passed]
                if wrong:
                    reasons[name] = (
                        f"wrong: {wrong[0].name}, {wrong[0].observed} > {wrong[0].bound}"
                    )
                    continue
            for call in found:
                call()
            calls[name] = found
        except UnfitError as error:
            reasons[name] = str(error)
        # Backends that lack a kernel for a shape, and compilers, say so in errors of their own.
        except (RuntimeError, NotImplementedError, torch.OutOfMemoryError) as error:
            reasons[name] = f"{type(error).__name__}: {(str(error).split('. ')[0])[:120]}"
    return calls, reasons


def made(spec: KernelSpec, inputs: Any) -> Mapping[str, Found]:
    """Every peer of a kernel on these inputs but its own torch backend."""
    return {} if spec.peers is None else load(spec.peers.make)(inputs)


def one(spec: KernelSpec, name: str, inputs: Any) -> Peer:
    """One peer on these inputs."""
    if name == OWN:
        return Peer(partial(load(spec.eager), *inputs), lambda returned: returned)
    return made(spec, inputs)[name]()


def _of(
    spec: KernelSpec, name: str, sets: Sequence[Any], timed: Sequence[Mapping[str, Found]]
) -> Iterator[partial[Any]]:
    for place, inputs in enumerate(sets):
        peer = one(spec, name, inputs) if name == OWN else timed[place][name]()
        yield partial(peer.call)
