"""Service-level objectives: how quick is quick enough, by who is waiting (lecture section 1).

A request meets the objective when it meets both bounds; without a bound only an answer is asked
for, so that goodput is then the rate of completed requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from harness.errors import printable
from harness.records import Record


class Slo(Record):
    """Bounds on one request, in milliseconds; None: no bound."""

    ttft_ms: float | None = Field(None, gt=0, description="time to first token, at most")
    tpot_ms: float | None = Field(None, gt=0, description="time per token after it, at most")


PRESETS: Mapping[str, Slo] = {
    # People read about 10 tokens a second (lecture 1.1), so 100 ms a token keeps up with the eye.
    # A second is how long a pause may be before a train of thought breaks (Miller, "Response time
    # in man-computer conversational transactions", AFIPS 1968; Nielsen, "Usability Engineering",
    # 1993, chapter 5).
    "chat": Slo(ttft_ms=1000.0, tpot_ms=100.0),
    # A completion must stand there before the next key is hit (lecture 1): a typist at 40 words of
    # five letters a minute hits one every 300 ms. Of these 100 ms, what is felt as immediate
    # (Nielsen, the same chapter), go to the first token; the other 200 ms at 20 ms a token leave
    # ten more, a line of code.
    "completion": Slo(ttft_ms=100.0, tpot_ms=20.0),
    # Nobody waits: only throughput counts (lecture 1.1).
    "batch": Slo(),
    # Nobody reads, and the optimizer waits for the last answer: throughput counts here too.
    "rollout": Slo(),
}


def _preset(given: Any) -> Any:
    """A preset's name to its bounds; anything else is left to the model."""
    if not isinstance(given, str):
        return given
    if given not in PRESETS:
        close = get_close_matches(given[:80], PRESETS, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(PRESETS)}"
        raise ValueError(f"names the unknown preset '{printable(given, 40)}'; {hint}")
    return PRESETS[given].model_dump()


SloSetting = Annotated[
    Slo,
    BeforeValidator(
        _preset, json_schema_input_type=Literal["chat", "completion", "batch", "rollout"] | Slo
    ),
]
