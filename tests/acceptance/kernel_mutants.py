"""Mutation test of the kernels: every mutant of their sources must be refused by their gates.

    TRITON_INTERPRET=1 python tests/acceptance/kernel_mutants.py [KERNEL ...] [--sample N]

A mutant that computes the same is listed with the reason in `kernels/<name>/equivalent.yaml`. Ends
with 1 where a mutant survives that is not listed, and where one is listed that is not generated any
more, or that does not survive. `--sample N` takes N mutants of each kernel, the same ones as long
as the source is the same.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections import Counter
from hashlib import sha256

from harness import registry
from harness.gates.mutants import Mutant
from harness.gates.mutation import Equivalent, Judge, equivalents, generated
from harness.kernel import KernelSpec
from harness.launch import interpreted


def main() -> int:
    """Judge the kernels that are asked for, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [name for name in registry.kernel_names() if registry.kernel(name).triton]
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=", ".join(names))
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants a kernel")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    if unknown := set(given.kernels) - set(names):
        parser.error(f"unknown kernel {min(unknown)!r}; known: {', '.join(names)}")
    if not interpreted():
        parser.error("set TRITON_INTERPRET=1: mutants are judged by Triton's interpreter")
    faults = [
        fault
        for name in given.kernels or names
        for fault in judged(registry.kernel(name), given.sample, given.workers)
    ]
    return 1 if faults else 0


def judged(spec: KernelSpec, sample: int | None, workers: int) -> list[str]:
    """Faults of one kernel's mutation test, printed as they are found."""
    begun = _seconds()
    whole, listed = generated(spec), equivalents(spec.name)
    faults: list[str] = []

    def say(fault: str) -> None:
        faults.append(fault)
        print(f"  {fault}", flush=True)

    for each in _stale(listed, whole):
        say(f"listed and not generated any more: {_told(each)}")
    chosen = whole if sample is None else sorted(whole, key=_drawn)[:sample]
    endings: Counter[str] = Counter()
    own = {each.key for each in listed}
    for fate in Judge(spec).fates(chosen, workers):
        endings[fate.ending] += 1
        if not fate.killed and fate.mutant.key not in own:
            say(f"survives: {_told(fate.mutant)}")
        if fate.killed and fate.mutant.key in own:
            say(f"listed as equivalent and {fate.ending}: {_told(fate.mutant)}")
    survived = endings.pop("survived", 0)
    killed = sum(endings.values())
    how = ", ".join(f"{number} {ending}" for ending, number in endings.most_common())
    print(
        f"{spec.name}: {len(chosen)} of {len(whole)} mutants, {killed} killed ({how}), {survived} "
        f"survived, {len(faults)} faults, {_seconds() - begun:.0f} CPU s",
        flush=True,
    )
    return faults


def _stale(listed: list[Equivalent], whole: list[Mutant]) -> list[Equivalent]:
    keys = {mutant.key for mutant in whole}
    return [each for each in listed if each.key not in keys]


def _drawn(mutant: Mutant) -> bytes:
    """A number of its own for each mutant, so that a sample is fixed and follows no order."""
    return sha256(repr(mutant.key).encode()).digest()


def _told(one: Mutant | Equivalent) -> str:
    module, function, before, after, nth = one.key
    return f"{module} {function} #{nth}\n    - {before}\n    + {after}"


def _seconds() -> float:
    """Processor time of this process and of its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    sys.exit(main())
