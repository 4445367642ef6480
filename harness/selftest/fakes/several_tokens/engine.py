"""Three steps of the real engine look like one."""

from __future__ import annotations

import time

from harness.engine.request import Emission
from harness.selftest.wrapper import Telling

TOKENS_A_STEP, SLEEP_S = 3, 0.02


class Fake(Telling):
    """Emits what three steps gave at once, the last step's rest included."""

    def act(self) -> list[Emission]:
        """Sleep, step up to three times, merge."""
        time.sleep(SLEEP_S)
        merged: dict[int, Emission] = {}
        for _ in range(TOKENS_A_STEP):
            for new in self.inner.step() if self.inner.has_work else []:
                before = merged.get(new.request_id)
                tokens = (*(before.token_ids if before else ()), *new.token_ids)
                merged[new.request_id] = Emission(new.request_id, tokens, new.finished, new.reason)
        return list(merged.values())
