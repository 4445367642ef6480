"""What goes through the sweep and what must come out of it: one trial a row."""

from __future__ import annotations

from dataclasses import dataclass

from harness.run import Status
from harness.selftest import truth
from harness.selftest.truth import Check

# Short for its trials, and far longer than any of the others takes.
HANG_TIMEOUT_S, SILENT_TIMEOUT_S, TIMEOUT_S = 15.0, 60.0, 300.0


@dataclass(frozen=True)
class Trial:
    """One stack at one point, and what the instrument must say of it.

    `gate` is the first gate that must be red, by the beginning of its name; `reason` a part of the
    run's reason; `checks` hold the numbers of a good run to the truth.
    """

    name: str
    stack: str
    status: Status
    gate: str | None = None
    reason: str = ""
    checks: tuple[Check, ...] = ()
    batch: int = 1
    new_tokens: int = 8
    clock: str | None = None
    timeout_s: float = TIMEOUT_S

    @property
    def expected(self) -> str:
        """What must come out, in words."""
        if self.gate is not None:
            return f"{self.status}, gate {self.gate}"
        return f"{self.status}{', true numbers' if self.checks else ''}"


def _fake(name: str, status: Status, **fields: object) -> Trial:
    return Trial(name=name, stack=f"mha+{name}", status=status, **fields)  # type: ignore[arg-type]


def _red(name: str, gate: str) -> Trial:
    return _fake(name, "gate_failed", gate=gate)


_CLOCKS = "harness.selftest.clocks"

TRIALS: tuple[Trial, ...] = (
    # An honest technique: nothing may be red.
    Trial("honest", "mha", "ok"),
    # Known times.
    _fake("sleeping", "ok", checks=(truth.times, truth.sums, truth.gap_count, truth.slept)),
    _fake("several_tokens", "ok", checks=(truth.times, truth.sums)),
    _fake("empty_first", "ok", checks=(truth.times, truth.sums)),
    _fake("patched_timer", "ok", checks=(truth.times,)),
    _fake("burst", "ok", checks=(truth.held_back,)),
    Trial("one_token", "mha+sleeping", "ok", checks=(truth.single_token,), new_tokens=1),
    # A wrong number of tokens.
    _red("no_tokens", "trace"),
    _red("lazy", "trace"),
    _red("early_end", "tokens_after"),
    # Wrong outputs.
    _red("wrong_output", "regret"),
    _red("wrong_logits", "numeric_max"),
    _red("nan_output", "numeric_max"),
    _red("nan_reference", "numeric_max"),
    _red("flat_output", "numeric_controls"),
    _red("unwritten_output", "numeric_max"),
    _red("cached_output", "regret_after"),
    _red("wrong_state", "state_bytes"),
    # What a row does not say.
    _red("more_threads", "ambient"),
    # Times that cannot be.
    _red("beats_physics", "plausible"),
    Trial("backward_clock", "mha", "gate_failed", "clock", clock=f"{_CLOCKS}:backwards"),
    Trial("standing_clock", "mha", "gate_failed", "clock", clock=f"{_CLOCKS}:standing"),
    # What costs one case, and one only.
    _fake("out_of_memory", "oom"),
    Trial("larger_case", "mha+out_of_memory", "skipped", batch=2),
    _fake("hangs", "timeout", timeout_s=HANG_TIMEOUT_S),
    _fake("silent", "error", reason="stuck", timeout_s=SILENT_TIMEOUT_S),
    _fake("segfault", "crashed", reason="SIGSEGV"),
    _fake("raises", "error", reason="this fake always raises"),
    _fake("quits", "error", reason="left no result"),
)
