"""The mutation test of a kernel: its gate, in the interpreter, held over all mutants of its source.

Needs a process where Triton interprets and has no other threads: torch, triton, inputs and
references are loaded once, and each mutant runs in a fork of that. A mutant ends at the first red
shape, the quickest shapes come first, and one that takes far longer than the kernel is ended.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml

from harness.errors import HarnessError
from harness.gates.kernel import Trial
from harness.gates.mutants import Mutant, instrumented, mutants
from harness.kernel import KernelSpec
from harness.paths import root

EQUIVALENT = "equivalent.yaml"
_PACKAGE = "harness.kernels."
# What an instrumented kernel calls.
_TELL = "_executed"
# Processor time of a mutant at one shape: so many times the kernel's own, and seconds beside it.
_SLOWER, _GRACE_SECONDS = 5.0, 1.0
_SURVIVED, _REFUSED, _RAISED = 0, 1, 2
_FATES = {_SURVIVED: "survived", _REFUSED: "refused by the gate", _RAISED: "raised an error"}


@dataclass(frozen=True)
class Source:
    """One module with Triton functions that a kernel runs."""

    module: str
    text: str


def sources(spec: KernelSpec) -> list[Source]:
    """The modules whose Triton functions a kernel runs, the imported before the importing."""
    assert spec.triton is not None
    found: dict[str, Source] = {}

    def follow(module: str) -> None:
        if module in found or not (path := _path(module)).is_file():
            return
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
                follow(str(node.module))
        if "@triton.jit" in text:
            found[module] = Source(module, text)

    follow(spec.triton.partition(":")[0])
    return list(found.values())


def _path(module: str) -> Path:
    return root() / "kernels" / Path(*module.removeprefix(_PACKAGE).split(".")).with_suffix(".py")


def generated(spec: KernelSpec) -> list[Mutant]:
    """All mutants of a kernel's own folder: what it takes from another's is judged there."""
    own = [each for each in sources(spec) if each.module.startswith(f"{_PACKAGE}{spec.name}.")]
    return [mutant for source in own for mutant in mutants(source.module, source.text)]


@dataclass(frozen=True)
class Equivalent:
    """A mutant that computes the same, and why."""

    key: tuple[str, str, str, str, int]
    reason: str


def equivalents(kernel: str) -> list[Equivalent]:
    """What a kernel's folder lists: reasons, each with its mutants by statement, as was and is."""
    path = root() / "kernels" / kernel / EQUIVALENT
    if not path.is_file():
        return []
    found = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        module = f"{_PACKAGE}{entry.get('module', kernel + '.kernel')}"
        for each in entry["mutants"]:
            key = (module, each["function"], each["before"], each["after"], each.get("nth", 0))
            found.append(Equivalent(key, entry["reason"]))
    return found


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    ending: str  # one of the values of _FATES, or "ended by ..."

    @property
    def killed(self) -> bool:
        """Whether the kernel's gate told it from the kernel."""
        return self.ending != _FATES[_SURVIVED]


@dataclass(frozen=True)
class _Trial:
    """A shape on trial, and what the kernel itself does there."""

    trial: Trial
    seconds: float  # processor time
    lines: frozenset[tuple[str, int]]  # of its sources, by module, that it executes


class Judge:
    """A kernel's gate, ready to be held over mutants of it."""

    def __init__(self, spec: KernelSpec) -> None:
        assert spec.triton is not None
        self._module, _, self._name = spec.triton.partition(":")
        self._sources = sources(spec)
        lines: set[tuple[str, int]] = set()
        found = []
        with TemporaryDirectory(prefix="mutants-") as folder:
            candidate = self._instrumented(Path(folder), lines)
            # float32 has the teeth: no rule changes a rounding, of which float16 has others.
            for shape in spec.shapes["test"]:
                trial = Trial(spec, shape, torch.float32)
                begun = time.process_time()
                lines.clear()
                if said := trial.complaints(candidate):
                    raise HarnessError(f"{spec.name} itself is red at {dict(shape)}: {said[0]}")
                seconds = time.process_time() - begun
                found.append(_Trial(trial, seconds, frozenset(lines)))
        self._trials = sorted(found, key=lambda each: each.seconds)

    def fates(self, wanted: Sequence[Mutant], workers: int) -> Iterator[Fate]:
        """What becomes of each, as it is known; so many processes at a time."""
        waiting, running = list(reversed(wanted)), dict[int, Mutant]()
        with TemporaryDirectory(prefix="mutants-") as folder:
            while waiting or running:
                while waiting and len(running) < workers:
                    mutant = waiting.pop()
                    running[self._started(mutant, Path(folder))] = mutant
                child, status = os.wait()
                code = os.waitstatus_to_exitcode(status)
                name = _FATES.get(code) or f"ended by {signal.Signals(-code).name}"
                yield Fate(running.pop(child), name)

    def _started(self, mutant: Mutant, folder: Path) -> int:
        child = os.fork()
        if child:
            return child
        code = _RAISED
        try:
            # What it prints, and what the interpreter says of it, concerns nobody.
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            code = self._judged(mutant, self._mutated(mutant, folder))
        finally:
            os._exit(code)

    def _judged(self, mutant: Mutant, candidate: Callable[..., Any]) -> int:
        changed = {(mutant.module, line) for line in mutant.lines}
        launched = mutant.function == self._name
        for each in self._trials:
            # Where the changed statement is never executed, nothing is changed.
            if not launched and changed.isdisjoint(each.lines):
                continue
            signal.setitimer(signal.ITIMER_PROF, _SLOWER * each.seconds + _GRACE_SECONDS)
            if each.trial.complaints(candidate):
                return _REFUSED
        return _SURVIVED

    def _instrumented(self, folder: Path, lines: set[tuple[str, int]]) -> Callable[..., Any]:
        """The launcher, with kernels that tell which of their lines are executed."""
        texts = {each.module: instrumented(each.text, _TELL) for each in self._sources}
        told = {
            module: {_TELL: lambda line, module=module: lines.add((module, line))}
            for module in texts
        }
        return self._loaded(texts, folder, told)

    def _mutated(self, mutant: Mutant, folder: Path) -> Callable[..., Any]:
        """The launcher, with the mutant beside the rest."""
        texts = {source.module: source.text for source in self._sources}
        return self._loaded(texts | {mutant.module: mutant.source}, folder, {})

    def _loaded(
        self, texts: Mapping[str, str], folder: Path, names: Mapping[str, Mapping[str, Any]]
    ) -> Callable[..., Any]:
        """The launcher, with modules of these texts in place of its own, and names in them."""
        for number, (name, text) in enumerate(texts.items()):
            # A file, because the interpreter reads a function's source.
            path = folder / f"{os.getpid()}-{number}.py"
            path.write_text(text)
            found = importlib.util.spec_from_file_location(name, path)
            assert found is not None
            assert found.loader is not None
            module = importlib.util.module_from_spec(found)
            vars(module).update(names.get(name, {}))
            sys.modules[name] = module
            found.loader.exec_module(module)
        function: Callable[..., Any] = getattr(sys.modules[self._module], self._name)
        return function
