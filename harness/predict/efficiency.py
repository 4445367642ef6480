"""What share of its limits a device reaches: a few constants by class of operation, and the error.

The form is one for every device; the constants are fitted on measurements. Those of GPUs come from
published times of one of them (`data/`) and are taken for every other by its datasheet alone; those
of the machine at hand are measured by `harness calibrate`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pydantic import Field, NonNegativeFloat, PositiveFloat

from harness.predict.measured import Measured
from harness.records import Record
from harness.suite import document
from harness.suite.validation import validate

_SHIPPED = Path(__file__).with_name("efficiency.yaml")


class Efficiency(Record):
    """Constants of one device, or of one that stands for its kind.

    The first four are the fitted ones of matrix products, and stand for attention too. Of a
    processor, whose operations are measured one by one, only what its host spends counts.
    """

    matrix: PositiveFloat = Field(description="share of the matrix rate, operands at hand")
    memory: PositiveFloat = Field(description="share of memory bandwidth")
    operands: PositiveFloat | None = Field(
        None, description="rate at which tiles are fed from the last cache, in memory bandwidths"
    )
    launch_seconds: NonNegativeFloat = Field(description="an operation that does nothing")
    step_seconds: NonNegativeFloat = Field(0.0, description="scheduling of one step, on the host")
    prompt_seconds: NonNegativeFloat = Field(0.0, description="more of a step that feeds prompts")
    sequence_seconds: NonNegativeFloat = Field(0.0, description="of one sequence in it")
    spread: NonNegativeFloat = Field(description="standard deviation of the logarithm of the error")
    source: str


class Local(Record):
    """A processor in one dtype and number of threads, as measured."""

    flops_per_s: PositiveFloat  # of matrix products with all operands at hand
    bandwidth: PositiveFloat  # of weights that lie in memory, bytes a second
    measured: Measured
    efficiency: Efficiency


class Link(Record):
    """Constants of an all-reduce: t = seconds + 2 (n - 1) / n * bytes / (share * link's rate)."""

    seconds: PositiveFloat
    share: PositiveFloat
    source: str


class _Shipped(Record):
    gpu: Efficiency
    elsewhere: PositiveFloat
    stacks: PositiveFloat
    link: Link


def gpu() -> Efficiency:
    """The constants that stand for every GPU, as fitted on the one whose times are shipped."""
    return _load().gpu


def elsewhere() -> Efficiency:
    """The same for a GPU known by its datasheet alone: equal constants, a larger error."""
    shipped = _load()
    return shipped.gpu.model_copy(update={"spread": shipped.elsewhere})


def stacks_spread() -> float:
    """Standard deviation of log(predicted / measured) of stacks on a calibrated processor."""
    return _load().stacks


def link() -> Link:
    """The constants of all-reduces between GPUs of one machine."""
    return _load().link


@cache
def _load() -> _Shipped:
    read = document.read(_SHIPPED.read_text(encoding="utf-8"), _SHIPPED.name)
    return validate(_Shipped, read.values, read.place)
