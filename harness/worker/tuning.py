"""Tuning: which tiles and warps of a kernel are quickest here, among those that are right.

Every configuration of a spec is held to the reference before it is timed, and the winner once more
by what its timed calls left. The default stays unless another one is quicker beyond the noise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness.gates.poison import poisoned
from harness.kernel import KernelSpec, Tuning
from harness.measure.calls import Call, Calls, in_turns
from harness.measure.interval import median
from harness.technique import load
from harness.worker.kernel_gate import Right

Config = Mapping[str, int]

# Samples of each configuration, and of the best few and the default in turns.
_FIRST, _TURNS, _BEST = 5, 30, 4
# By this much another one must beat the default: two runs of one configuration differ by so much.
MARGIN = 0.02
# Sets of inputs that calls take turns on, so that they do not find theirs in a cache.
_SETS = 2


@dataclass(frozen=True)
class Tried:
    """One configuration: its median time of a call, or why it was refused."""

    config: Config
    ns: float | None
    refused: str | None = None


@dataclass(frozen=True)
class Tuned:
    """What came out for one row of the table."""

    arch: str
    dtype: str
    bucket: str
    sizes: Mapping[str, int]  # that it was timed at
    config: Config
    tried: tuple[Tried, ...]  # the default first

    @property
    def gain(self) -> float | None:
        """How many times quicker than the default; None where the default was refused."""
        times = {tuple(sorted(each.config.items())): each.ns for each in self.tried}
        own, default = times[tuple(sorted(self.config.items()))], self.tried[0].ns
        return None if own is None or default is None else default / own


class Bench:
    """A kernel on a device, and what makes samples of its calls."""

    def __init__(
        self,
        spec: KernelSpec,
        call: Callable[..., Any],
        make: Callable[[Sequence[Call]], Calls],
        *,
        arch: str,
        device: str,
    ) -> None:
        assert spec.tuning is not None, f"kernel '{spec.name}' has nothing to tune"
        self._spec, self._call, self._make = spec, call, make
        self._arch, self._device = arch, device
        self._tuning: Tuning = spec.tuning
        self._draw: Callable[[int], Any]  # inputs of the row that is being tuned, by number

    def tune(self, dtypes: Sequence[str], shapes: Sequence[Mapping[str, int]]) -> Iterator[Tuned]:
        """A row for each dtype and bucket; where no configuration is right there is none."""
        for dtype in dtypes:
            for bucket, sizes in self.buckets(shapes).items():
                found = self._row(dtype, bucket, sizes)
                if found is not None:
                    yield found

    def buckets(self, shapes: Sequence[Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
        """Of each row of the table the shape that it is tuned at: the one that moves most."""
        ordered = sorted(shapes, key=lambda sizes: self._spec.cost(sizes, "bfloat16").bytes)
        return {self._tuning.bucket(sizes): sizes for sizes in ordered}

    def _row(self, dtype: str, bucket: str, sizes: Mapping[str, int]) -> Tuned | None:
        self._draw = partial(self._inputs, sizes, getattr(torch, dtype))
        # Shared by all configurations: each would fill the device with sets of its own.
        sets = [self._draw(number) for number in range(_SETS)]
        right = Right.of(self._spec, self._draw(0))
        tried: list[Tried] = []
        sampled: list[tuple[float, int, Calls]] = []
        for config in load(self._tuning.candidates)(sizes, dtype, self._arch):
            refused, ns = self._refusal(config, right), None
            if refused is None:
                calls = self._make([partial(self._call, *each, config=config) for each in sets])
                ns = median([calls.sample() for _ in range(_FIRST)]).value
                sampled.append((ns, len(tried), calls))
            tried.append(Tried(config, ns, refused))
        chosen = self._best(sampled)
        if chosen is None:
            return None
        return Tuned(self._arch, dtype, bucket, sizes, tried[chosen].config, tuple(tried))

    def _best(self, sampled: Sequence[tuple[float, int, Calls]]) -> int | None:
        """The place of the quickest in turns whose timed calls were right; the default if near."""
        few = sorted(sampled, key=lambda each: each[0])[:_BEST]
        few += [each for each in sampled if each[1] == 0 and each not in few]
        rounds = [in_turns([calls for _, _, calls in few], number) for number in range(_TURNS)]
        times: dict[int, float] = {}
        for (_, place, calls), values in zip(few, zip(*rounds, strict=True), strict=True):
            right = Right.of(self._spec, self._draw(calls.last))
            if all(gate.passed for gate in right.judge(calls.again())):
                times[place] = median(values).value
        if not times:
            return None
        quickest = min(times, key=lambda place: times[place])
        near = 0 in times and times[0] <= times[quickest] * (1 + MARGIN)
        return 0 if near else quickest

    def _refusal(self, config: Config, right: Right) -> str | None:
        """Why a configuration may not be timed: it cannot run, or what it gives is wrong."""
        inputs = self._draw(0)
        try:
            with poisoned():
                returned = self._call(*inputs, config=config)
            wrong = [gate for gate in right.judge(returned) if not gate.passed]
        # Compilers and drivers refuse in errors of many kinds; none of them ends the tuning.
        except Exception as error:
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        return f"wrong: {wrong[0].name}, {wrong[0].detail}" if wrong else None

    def _inputs(self, sizes: Mapping[str, int], dtype: torch.dtype, number: int) -> Any:
        generator = torch.Generator(self._device).manual_seed(number)
        return load(self._spec.inputs)(sizes, dtype, generator, self._device)


def write(path: Path, rows: Sequence[Tuned], about: Mapping[str, str]) -> None:
    """Put rows into a kernel's table; rows of other architectures, dtypes and buckets stay.

    Args:
        about: on what these were measured: device, torch, triton.
    """
    kept = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else []
    new = [
        {"arch": row.arch, "dtype": row.dtype, "bucket": row.bucket, "config": dict(row.config),
         "gain": None if row.gain is None else round(row.gain, 3), **about}
        for row in rows
    ]  # fmt: skip
    keys = [_key(row) for row in new]
    whole = sorted([*(row for row in kept if _key(row) not in keys), *new], key=_key)
    lines = ",\n".join("  " + json.dumps(row) for row in whole)
    path.write_text(f'{{"rows": [\n{lines}\n]}}\n', encoding="utf-8")


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["arch"], row["dtype"], row["bucket"]
