"""What one case runs: a point for each kind of workload, with `kind` to tell them apart.

A new kind is a record here, its keys in `harness.suite.workloads`, and who runs it in
`harness.worker.execute`. All but the kernels' run a stack, and say what room its engine needs:
`slots`, `max_tokens` and `state_bytes`. `title` is a line for people.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from harness.records import Record


class GeneratePoint(Record):
    """B prompts of `prompt_tokens` tokens, `new_tokens` new tokens each."""

    kind: Literal["generate"] = "generate"
    batch: PositiveInt
    prompt_tokens: PositiveInt
    new_tokens: PositiveInt

    @property
    def title(self) -> str:
        """For a line: "B8 P128 N32"."""
        return f"B{self.batch} P{self.prompt_tokens} N{self.new_tokens}"

    @property
    def slots(self) -> int:
        """Sequences at once."""
        return self.batch

    @property
    def max_tokens(self) -> int:
        """The longest sequence, prompt and new tokens together."""
        return self.prompt_tokens + self.new_tokens

    @property
    def state_bytes(self) -> None:
        """Memory for keys and values is as much as every slot at its longest takes."""


class ServePoint(Record):
    """Requests that come over time, from `harness.suite.arrivals` by this record alone."""

    kind: Literal["serve"] = "serve"
    requests: PositiveInt
    arrivals: Literal["poisson", "gamma", "trace", "at_once"] = "poisson"
    rate: PositiveFloat | None = None  # requests a second; None: as in the trace, or at once
    burstiness: PositiveFloat = 1.0  # coefficient of variation of gamma's gaps
    trace: str | None = None  # where lengths, and with arrivals: trace times too, come from
    trace_digest: str | None = None  # SHA-256 of the file
    scale: PositiveFloat = 1.0  # what the trace's lengths are multiplied by
    prompt_tokens: PositiveInt | None = None  # of every request, without a trace
    new_tokens: PositiveInt | None = None
    prefix_tokens: NonNegativeInt = 0  # leading ones that many prompts have in common
    prefixes: PositiveInt = 1  # how many different beginnings there are
    samples: PositiveInt = 1  # answers to each prompt
    seed: NonNegativeInt = 0  # which window of the trace, which gaps, which texts
    slots: PositiveInt  # sequences at once
    max_tokens: PositiveInt  # longest sequence that the engine is built for
    state_bytes: PositiveInt | None = None  # memory for keys and values; None: slots x max_tokens
    stop: Literal["length", "eos"] = "length"
    idle: Literal["wait", "skip"] = "wait"

    @property
    def title(self) -> str:
        """For a line: "azure-2023-code x0.125, 8/s", with what differs from the defaults."""
        lengths = f"P{self.prompt_tokens} N{self.new_tokens}"
        if self.trace is not None:
            lengths = f"{self.trace.rsplit('/', 1)[-1]} x{self.scale:g}"
        coming = (
            "at once" if self.arrivals == "at_once" else f"{self.rate:g}/s" if self.rate else ""
        )
        words = {"gamma": f"cv {self.burstiness:g}", "trace": "its times"}.get(self.arrivals, "")
        told = [
            coming,
            words,
            f"prefix {self.prefix_tokens}" if self.prefix_tokens else "",
            f"{self.samples} answers" if self.samples > 1 else "",
            f"slots {self.slots}",
            f"{self.state_bytes / 1e6:g} MB" if self.state_bytes else "",
        ]
        return " ".join([f"{lengths},", *(word for word in told if word)])


QualityTask = Literal["text", "greedy", "copying", "cloze", "recall", "needle"]


class QualityPoint(Record):
    """How good a stack's outputs are, by one task of `harness.quality.tasks`: so many texts of so
    many tokens, of which `prompt_tokens` are fed at once and the others one by one.

    `against` names the model that divergences are from, as it was trained and with the baselines of
    all slots in float32; None: the case's own model.
    """

    kind: Literal["quality"] = "quality"
    task: QualityTask
    windows: PositiveInt
    tokens: PositiveInt
    prompt_tokens: PositiveInt
    batch: PositiveInt = 16
    seed: NonNegativeInt = 0
    against: str | None = None
    against_hash: str | None = None  # its checkpoint's

    @property
    def title(self) -> str:
        """For a line: "text W64 T256 P1"."""
        return f"{self.task} W{self.windows} T{self.tokens} P{self.prompt_tokens}"

    @property
    def slots(self) -> int:
        """Sequences at once."""
        return self.batch

    @property
    def max_tokens(self) -> int:
        """The longest text."""
        return self.tokens

    @property
    def state_bytes(self) -> None:
        """Memory for keys and values is as much as every slot at its longest takes."""


class KernelPoint(Record):
    """One kernel at one shape; `sizes` are numbers by the letters of the kernel's own docstring.

    Compiled code is known further by the launcher's `options` and by which `function` of the
    kernel it is; a call that is timed has neither. `peers` are timed in turns with it.
    """

    kind: Literal["kernel"] = "kernel"
    kernel: str
    sizes: dict[str, NonNegativeInt]
    options: dict[str, int] = Field(default_factory=dict)
    function: str = ""
    peers: tuple[str, ...] = ()

    def __hash__(self) -> int:
        rest = (*sorted(self.sizes.items()), *sorted(self.options.items()))
        return hash((self.kernel, self.function, self.peers, *rest))

    @property
    def title(self) -> str:
        """For a line: "B8 D1024 F4096", without what is zero."""
        sizes = [f"{name}{size}" for name, size in self.sizes.items() if size]
        options = [f"{name} {value}" for name, value in self.options.items()]
        return " ".join([*sizes, *options, *([self.function] if self.function else [])])


StackPoint = GeneratePoint | ServePoint | QualityPoint
Workload = Annotated[
    GeneratePoint | ServePoint | QualityPoint | KernelPoint, Field(discriminator="kind")
]
