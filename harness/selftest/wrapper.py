"""The real engine with something around it: what the fakes' engines are made of."""

from __future__ import annotations

import atexit
import json
import time
from typing import Any

from torch import Tensor

from harness.engine.decoder import Decoder
from harness.engine.engine import Engine, Memory, Observer
from harness.engine.request import Emission, Request
from harness.engine.runner import Runner
from harness.engine.scheduler import Scheduler

TRUTH = "truth "  # begins the lines in which a fake says what really happened


class Wrapped:
    """Hands everything through to the real engine; a fake overrides what it does otherwise."""

    def __init__(
        self, runner: Runner, decoder: Decoder, scheduler: Scheduler, max_tokens: int
    ) -> None:
        self.inner = Engine(runner, decoder, scheduler, max_tokens)
        self._observer: Observer | None = None

    @property
    def observer(self) -> Observer | None:
        """Who looks at the logits; nobody while time is taken."""
        return self._observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self._observer = observer
        self.inner.observer = None if observer is None else self._show

    @property
    def watched(self) -> bool:
        """Whether somebody looks: what a technique that cheats would ask."""
        return self._observer is not None

    @property
    def has_work(self) -> bool:
        """The real engine's."""
        return self.inner.has_work

    @property
    def implementations(self) -> dict[str, str]:
        """The real engine's."""
        return self.inner.implementations

    def submit(self, request: Request) -> None:
        """Hand a request on."""
        self.inner.submit(request)

    def step(self) -> list[Emission]:
        """One step of the real engine."""
        return self.inner.step()

    def reset(self) -> None:
        """Forget everything."""
        self.inner.reset()

    def memory(self) -> Memory:
        """The real engine's."""
        return self.inner.memory()

    def shown(self, logits: Tensor) -> Tensor:
        """What is shown for logits [rows, V]."""
        return logits

    def _show(self, request: int, place: int, logits: Tensor) -> None:
        assert self._observer is not None
        self._observer(request, place, self.shown(logits))


class Telling(Wrapped):
    """Keeps a log of its own and prints it between repetitions: the truth about its times.

    One line a repetition, `truth {"submitted": ns, "emissions": [[ns, tokens], ...]}`, for a batch
    of one. Override `act` instead of `step`.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._submitted_ns = 0
        self._emissions: list[tuple[int, int]] = []
        # Nothing follows the last repetition, and printing within one would take time of it.
        atexit.register(self._tell)

    def submit(self, request: Request) -> None:
        """Note when."""
        self._submitted_ns = time.monotonic_ns()
        super().submit(request)

    def act(self) -> list[Emission]:
        """What a step does."""
        return self.inner.step()

    def step(self) -> list[Emission]:
        """Act, and note what came out when."""
        emissions = self.act()
        now = time.monotonic_ns()
        self._emissions += [(now, len(e.token_ids)) for e in emissions if e.token_ids]
        return emissions

    def reset(self) -> None:
        """Tell of the repetition before."""
        self._tell()
        super().reset()

    def _tell(self) -> None:
        if self._emissions:
            told = {"submitted": self._submitted_ns, "emissions": self._emissions}
            print(TRUTH + json.dumps(told, separators=(",", ":")), flush=True)
        self._emissions = []
