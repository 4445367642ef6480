"""The `serve` workload: requests that come over time, at a rate, as in a trace, or all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from harness.records import Record
from harness.suite import traces
from harness.suite.arrivals import arrivals, longest
from harness.suite.axes import Axis, Batch, Tokens
from harness.suite.points import ServePoint

# Bounds no run reaches on purpose.
Requests = Annotated[int, Field(gt=0, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=1e6)]
Burstiness = Annotated[float, Field(ge=0.05, le=50)]
Samples = Annotated[int, Field(gt=0, le=1_024)]
Prefix = Annotated[int, Field(ge=0, le=16_777_216)]
MegaBytes = Annotated[float, Field(gt=0, le=1e9)]


class ServeWorkload(Record):
    """Requests over time, in an open loop: a late answer holds no later request back."""

    kind: Literal["serve"]
    requests: Requests = Field(description="how many come")
    arrivals: Literal["poisson", "gamma", "trace", "at_once"] = Field(
        "poisson", description="when they come: at `rate` in one of two ways, as in `trace`, or now"
    )
    rate: Axis[Rate] | None = Field(
        None, description="requests a second, one or several; stretches the times of a trace"
    )
    burstiness: Axis[Burstiness] = Field(
        (1.0,),
        description="of gamma: the standard deviation of the gaps over their mean; 1 is Poisson",
    )
    trace: str | None = Field(
        None,
        description="where lengths come from: a name of suites/data, or a file of either format",
    )
    scale: float = Field(
        1.0, gt=0, le=1, description="what the trace's lengths are multiplied by, for the model"
    )
    prompt_tokens: Tokens | None = Field(None, description="P of every request, without a trace")
    new_tokens: Tokens | None = Field(None, description="N of every request, without a trace")
    prefix_tokens: Axis[Prefix] = Field(
        (0,), description="tokens in front of each prompt that it shares with others"
    )
    prefixes: Requests = Field(1, description="how many different such beginnings there are")
    samples: Axis[Samples] = Field((1,), description="answers to each prompt (best of n)")
    seed: int = Field(
        0, ge=0, le=2**32, description="chooses the window of the trace, the gaps and the texts"
    )
    slots: Axis[Batch] = Field((64,), description="sequences at once, at most")
    max_tokens: Tokens | None = Field(
        None,
        description="longest sequence that the engine is built for; longer requests are refused;"
        " none: as long as the longest",
    )
    state_mb: Axis[MegaBytes] | None = Field(
        None,
        description="memory for keys and values in MB, equal for all stacks; none: as much as"
        " every slot at its longest takes",
    )
    stop: Literal["length", "eos"] = Field(
        "length",
        description="length: each answer is as long as the workload says; eos: also where the model"
        " ends it",
    )
    idle: Literal["wait", "skip"] = Field(
        "wait",
        description="while nothing is there to do: wait for the next request, or go on to it",
    )

    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The values to multiply, by key; the last key varies fastest."""
        return {
            "slots": self.slots,
            "state_mb": self.state_mb or (None,),
            "prefix_tokens": self.prefix_tokens,
            "samples": self.samples,
            "burstiness": self.burstiness,
            "rate": self.rate or (None,),
        }

    def point(self, values: Mapping[str, Any]) -> ServePoint:
        """The point with one value for each of the axes.

        Raises UsageError for a trace that cannot be read, or is too short.
        """
        given = self.model_dump(exclude={"kind", "state_mb", *self.axes()})
        point = ServePoint(
            **given | {"max_tokens": self.max_tokens or 1},
            trace_digest=traces.read(self.trace).digest if self.trace else None,
            state_bytes=round(values["state_mb"] * 1e6) if values["state_mb"] else None,
            **{name: values[name] for name in self.axes() if name != "state_mb"},
        )
        if self.max_tokens is not None:
            return point
        return point.model_copy(update={"max_tokens": longest(arrivals(point))})

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Refuse keys that contradict each other, or say nothing beside the others."""
        at_rate = self.arrivals in ("poisson", "gamma")
        if at_rate and self.rate is None:
            raise ValueError(f"comes as {self.arrivals} at no rate; add rate: 2")
        if self.arrivals == "at_once" and self.rate is not None:
            raise ValueError("comes at once and has a rate; take one of them out")
        if self.arrivals != "gamma" and self.burstiness != (1.0,):
            raise ValueError(
                f"has a burstiness and comes as {self.arrivals}; write arrivals: gamma"
            )
        if self.trace is None:
            if self.arrivals == "trace":
                raise ValueError("comes as in a trace and names none; add trace: azure-2023-code")
            if self.prompt_tokens is None or self.new_tokens is None:
                raise ValueError("names no lengths; add a trace, or prompt_tokens and new_tokens")
            if self.scale != 1.0:
                raise ValueError("scales the lengths of a trace and names none")
        elif self.prompt_tokens is not None or self.new_tokens is not None:
            raise ValueError("has lengths of its own beside those of its trace; take one out")
        if self.prefixes > 1 and self.prefix_tokens == (0,):
            raise ValueError("has several prefixes of no tokens; add prefix_tokens: 64")
        return self
