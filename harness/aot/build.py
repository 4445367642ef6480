"""Many kernels for many targets: what is cached is read, the rest is compiled by workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from harness import registry
from harness.aot import cache
from harness.aot.figures import Compiled, Figures, UnitName
from harness.aot.machine import Machine, compiled, figures
from harness.aot.units import Unit, units
from harness.kernel import AotConfig, KernelSpec
from harness.target import Target, target_named

# Units that one worker compiles before it disassembles them together.
BATCH = 8
Outcome = Figures | str  # the string says why there are no figures
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Wanted:
    """A unit of the result, and where its figures come from."""

    unit: Unit
    config: AotConfig
    key: str


def build(
    specs: Sequence[KernelSpec],
    targets: Sequence[Target],
    *,
    folder: Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Compiled]:
    """Every configuration of these kernels for these targets, in that order.

    Args:
        folder: of the cache; None is the user's.
        workers: processes; None is one a core.
        progress: called with units done and units to compile, whenever one is done.
    """
    where = cache.folder() if folder is None else folder
    found: list[_Wanted | Compiled] = []
    for spec in specs:
        for target in targets:
            for number, config in enumerate(spec.aot):
                found += _configuration(spec, number, config, target)
    wanted = {each.key: each.unit.name for each in found if isinstance(each, _Wanted)}
    outcomes: dict[str, Outcome] = {}
    for key in wanted:
        kept = cache.read(key, where)
        if kept is not None:
            outcomes[key] = kept
    missing = {key: name for key, name in wanted.items() if key not in outcomes}
    outcomes |= _by_workers(missing, where, workers or _cores(), progress)
    return [each if isinstance(each, Compiled) else _result(each, outcomes) for each in found]


def _configuration(
    spec: KernelSpec, number: int, config: AotConfig, target: Target
) -> list[_Wanted | Compiled]:
    reason = config.unsupported.get(target.arch)
    if reason is None:
        return [_Wanted(unit, config, unit.key) for unit in units(spec, number, target)]
    name = UnitName(kernel=spec.name, config=number, target=target.arch, function="")
    return [_described(name, config, unsupported=reason)]


def _described(name: UnitName, config: AotConfig, **more: object) -> Compiled:
    sizes = " ".join(f"{letter}{size}" for letter, size in config.shape.items() if size)
    options = " ".join(f"{key} {value}" for key, value in config.options.items())
    title = " ".join(part for part in (sizes, options, config.dtype) if part)
    return Compiled(
        unit=name, title=title, sizes=dict(config.shape), options=dict(config.options),
        dtype=config.dtype, **more,
    )  # fmt: skip


def _result(wanted: _Wanted, outcomes: dict[str, Outcome]) -> Compiled:
    outcome = outcomes[wanted.key]
    return _described(
        wanted.unit.name,
        wanted.config,
        launch=wanted.unit.launch,
        absent=wanted.unit.absent,
        figures=None if isinstance(outcome, str) else outcome,
        error=outcome if isinstance(outcome, str) else None,
    )


def _by_workers(
    missing: dict[str, UnitName], where: Path, workers: int, progress: Progress | None
) -> dict[str, Outcome]:
    """Compile units in worker processes; a worker that dies costs the unit it died of alone."""
    waiting: SimpleQueue[list[str]] = SimpleQueue()
    batches = list(_batches(missing))
    for batch in batches:
        waiting.put(batch)
    outcomes: dict[str, Outcome] = {}

    def work() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            worker: subprocess.Popen[str] | None = None
            while True:
                try:
                    keys = waiting.get_nowait()
                except Empty:
                    break
                if worker is None or worker.poll() is not None:
                    worker = _start(scratch, where)
                answer = _ask(worker, [missing[key] for key in keys])
                if answer is not None:
                    outcomes.update(zip(keys, answer, strict=True))
                elif len(keys) > 1:
                    for key in keys:
                        waiting.put([key])
                else:
                    outcomes[keys[0]] = f"the compiler ended with status {worker.wait()}"
                if progress is not None:
                    progress(len(outcomes), len(missing))
            if worker is not None:
                worker.communicate()

    if batches:
        with ThreadPoolExecutor(min(workers, len(batches))) as pool:
            # What a thread puts back it takes again itself: none leaves while the queue holds one.
            for running in [pool.submit(work) for _ in range(min(workers, len(batches)))]:
                running.result()
    return outcomes


def _batches(missing: dict[str, UnitName]) -> Iterable[list[str]]:
    """Keys of one target together, a few at a time."""
    by_target: dict[str, list[str]] = {}
    for key, name in missing.items():
        by_target.setdefault(name.target, []).append(key)
    for keys in by_target.values():
        yield from (keys[i : i + BATCH] for i in range(0, len(keys), BATCH))


def _start(scratch: str, where: Path) -> subprocess.Popen[str]:
    """A worker; what Triton caches goes to a folder that is thrown away."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "harness.aot", str(where)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TRITON_CACHE_DIR": scratch, "OMP_NUM_THREADS": "1"},
    )


def _ask(worker: subprocess.Popen[str], names: list[UnitName]) -> list[Outcome] | None:
    """What came of these units, or None where the worker died."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        print(json.dumps([name.model_dump() for name in names]), file=worker.stdin, flush=True)
    except BrokenPipeError:
        return None
    line = worker.stdout.readline()
    if not line:
        return None
    return [
        each if isinstance(each, str) else Figures.model_validate(each) for each in json.loads(line)
    ]


def answered(names: Sequence[UnitName], where: Path) -> list[Outcome]:
    """Compile units of one target in this process and keep their figures: a worker's part."""
    found = [_unit(name) for name in names]
    machines: list[Machine | str] = []
    for unit in found:
        try:
            machines.append(compiled(unit))
        except (
            Exception
        ) as error:  # Triton raises errors of many kinds, all of them about the unit.
            machines.append(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    read = iter(figures([machine for machine in machines if isinstance(machine, Machine)]))
    outcomes: list[Outcome] = [m if isinstance(m, str) else next(read) for m in machines]
    for unit, outcome in zip(found, outcomes, strict=True):
        if isinstance(outcome, Figures):
            cache.write(unit.key, outcome, where)
    return outcomes


def _unit(name: UnitName) -> Unit:
    spec = registry.kernel(name.kernel)
    found = units(spec, name.config, target_named(name.target))
    return next(unit for unit in found if unit.name.function == name.function)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
