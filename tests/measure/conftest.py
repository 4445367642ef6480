"""An engine that plays a script, on a clock that only it moves: times are known to the ns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from harness.engine.request import Emission, Request
from harness.measure.clock import Clock


@dataclass
class ScriptedEngine:
    """Step i takes `durations[i]` ns (the last one for ever) and emits what `emit` says."""

    durations: list[int]
    emit: Callable[[ScriptedEngine, Request], tuple[int, ...]]
    now: int = 0
    steps: int = 0
    resets: int = 0
    given: dict[int, int] = field(default_factory=dict)
    running: list[Request] = field(default_factory=list)

    @property
    def has_work(self) -> bool:
        return bool(self.running)

    def submit(self, request: Request) -> None:
        self.running.append(request)
        self.given[request.id] = 0

    def step(self) -> list[Emission]:
        self.now += self.durations[min(self.steps, len(self.durations) - 1)]
        self.steps += 1
        emissions = []
        for request in list(self.running):
            tokens = self.emit(self, request)[: request.max_new_tokens - self.given[request.id]]
            self.given[request.id] += len(tokens)
            finished = self.given[request.id] == request.max_new_tokens
            if finished:
                self.running.remove(request)
            emissions.append(Emission(request.id, tokens, finished, "length" if finished else None))
        return emissions

    def reset(self) -> None:
        self.resets += 1
        self.steps = 0
        self.running.clear()
        self.given.clear()

    def clock(self) -> Clock:
        def read() -> int:
            # Reading takes a moment too, so that no two stamps are equal by accident.
            self.now += 1
            return self.now

        return Clock(read)


Scripted = Callable[..., ScriptedEngine]


@pytest.fixture
def scripted() -> Scripted:
    """Makes an engine: `scripted([100, 10])`, one token a step unless `emit` says otherwise."""

    def make(
        durations: list[int],
        emit: Callable[[ScriptedEngine, Request], tuple[int, ...]] = lambda engine, request: (7,),
    ) -> ScriptedEngine:
        return ScriptedEngine(durations, emit)

    return make
