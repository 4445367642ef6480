"""What one repetition left behind: stamps, tokens and steps, all in ns of one clock. Immutable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.errors import HarnessError


class MeasurementError(HarnessError):
    """What was seen cannot be a measurement, so no number of it may be stored."""


class ClockError(MeasurementError):
    """The clock went backwards, stood still over a step, or gave no whole number."""


class ContendedError(HarnessError):
    """Another process took the cores while time was taken; the run may be made again."""


class EngineError(HarnessError):
    """The engine cannot finish what it was given: it refused a request, or makes no progress."""


@dataclass(frozen=True)
class Submission:
    """One request as it was handed in."""

    request: int
    stamp_ns: int
    prompt_tokens: int


@dataclass(frozen=True)
class Emitted:
    """Tokens of one request that came out of one step; the stamp is that step's end."""

    request: int
    stamp_ns: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One iteration of the engine: from the end of the one before to the moment the device had
    finished this one."""

    start_ns: int
    end_ns: int
    tokens: int  # emitted, over all requests; 0 is legal

    @property
    def duration_ns(self) -> int:
        """Always positive: a step that took no time is refused when the trace is made."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Trace:
    """One repetition: every submission, every emission with tokens, and every step, in order."""

    submissions: tuple[Submission, ...]
    emissions: tuple[Emitted, ...]
    steps: tuple[Step, ...]

    @cached_property
    def by_request(self) -> dict[int, tuple[Emitted, ...]]:
        """Emissions of each submitted request, in order; empty where nothing came."""
        found: dict[int, list[Emitted]] = {s.request: [] for s in self.submissions}
        for emitted in self.emissions:
            found[emitted.request].append(emitted)
        return {request: tuple(emissions) for request, emissions in found.items()}

    @property
    def duration_ns(self) -> int:
        """First submission to the end of the last step."""
        return self.steps[-1].end_ns - self.submissions[0].stamp_ns

    def tokens(self, request: int) -> tuple[int, ...]:
        """Everything emitted for a request."""
        return tuple(t for emitted in self.by_request[request] for t in emitted.token_ids)
