"""What a comparison and a look at the history say: one verdict for each metric of each case.

Pure records, shared by `harness compare` and `harness regress` and by everything that prints them
(`harness.report.verdicts`): terminal, Markdown, JUnit, JSON and annotations show the same record
and cannot disagree. Ratios are times better, as everywhere in the harness: above 1 is better
whichever way the metric points, so a ratio of 0.97 is 3 % worse.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from harness.exit_codes import ExitCode
from harness.metrics import Direction
from harness.records import Record

VerdictName = Literal["regressed", "improved", "same", "unknown", "invalid"]
# In the order in which a report lists them: what needs somebody first.
VERDICTS: tuple[VerdictName, ...] = ("regressed", "invalid", "improved", "unknown", "same")

# What moved a series. "definition": the benchmark itself was changed.
Cause = Literal["code", "environment", "definition", "noise", "unknown"]
# A nominated change is a suspicion of one night; only a confirmed one alarms.
State = Literal["nominated", "confirmed", "unconfirmed", "acknowledged"]
# "stopped": a series that reported and does not any more. "flip": a gate changed its answer.
# "noise": the same level, and nights that scatter more or less than they did.
Kind = Literal["step", "drift", "noise", "stopped", "flip"]


class Subject(Record):
    """What a verdict is about: one metric of one case on one device."""

    case_hash: str
    title: str  # the case's: "gqa B8 P128 N32"
    conditions: str = ""  # "zoo/small, torch, float32, 1 thread": titles of unlike cases may agree
    hardware: str = ""  # the device's name
    metric: str
    unit: str
    direction: Direction

    @property
    def name(self) -> str:
        """Case, conditions and metric on one line; unlike subjects have unlike names."""
        where = ", ".join(part for part in (self.conditions, self.hardware) if part)
        return f"{self.title} ({where}) {self.metric}" if where else f"{self.title} {self.metric}"


class Change(Record):
    """A change in a series' history: what kind, since when, and which revisions are suspected."""

    kind: Kind
    state: State
    cause: Cause = "unknown"
    id: str = ""  # what `harness regress ack` takes; empty where it is not stored
    since: AwareDatetime | None = None  # start of the first sweep with the new level
    # The last commit known to be good and the first known to be changed.
    from_revision: str | None = None
    to_revision: str | None = None
    confidence: float | None = Field(None, ge=0, le=1)


class Verdict(Record):
    """One verdict with its evidence: absolute values beside the ratio, and an interval on it.

    `base` and `head` are in the subject's unit; for a history they are the accepted level and the
    current one. `ratio` is None exactly where nothing could be divided, and then `reason` says why.
    """

    subject: Subject
    verdict: VerdictName
    base: float | None = Field(None, allow_inf_nan=False)
    head: float | None = Field(None, allow_inf_nan=False)
    ratio: float | None = Field(None, gt=0, allow_inf_nan=False)  # times better
    ci_low: float | None = Field(None, ge=0, allow_inf_nan=False)
    ci_high: float | None = Field(None, ge=0, allow_inf_nan=False)
    n: int = 0  # pairs of processes; of a history, nights at the current level
    p: float | None = Field(None, ge=0, le=1)  # for a change in the direction of the ratio
    # The smallest relative change (0.03 is 3 %) that this noise and this n would have shown.
    smallest: float | None = Field(None, gt=0, allow_inf_nan=False)
    reason: str = ""
    # Looks changed, but a session effect cannot be told from it: worth a run of its own.
    nominated: bool = False
    # Whether somebody must be told: never for a suspicion, nor for what was acknowledged.
    alarm: bool = False
    change: Change | None = None

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.ratio is None and not self.reason:
            raise ValueError("a verdict without a ratio says why")
        if self.nominated and self.verdict != "unknown":
            raise ValueError("what is only nominated is unknown")
        return self


class Refusal(Record):
    """Something that was not compared, by name, and why."""

    title: str
    reason: str


class Summary(Record):
    """The geometric mean of the ratios of one metric, over cases that both sides have."""

    metric: str
    ratio: float = Field(gt=0, allow_inf_nan=False)
    worst: float  # the smallest and the largest ratio in it
    best: float
    cases: int
    left_out: int  # cases without a ratio


class Need(Record):
    """How many rounds this machine's noise needs to show a change, forecast from what was seen."""

    metric: str
    change: float = Field(gt=0)  # relative, 0.03 for 3 %
    usual: int | None  # of the median case; None: more than anybody measures
    worst: int | None  # of the noisiest case


class Verdicts(Record):
    """Everything one comparison, or one look at the history, has to say."""

    format_version: Literal[1] = 1
    tool: Literal["compare", "regress"]
    title: str  # "main 4a3ceac9c182 against head 83cc1f3aa011"
    at: AwareDatetime
    conditions: tuple[tuple[str, str], ...] = ()  # name and value, for the head of a table
    rows: tuple[Verdict, ...] = ()
    refused: tuple[Refusal, ...] = ()
    summaries: tuple[Summary, ...] = ()
    needs: tuple[Need, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader must know beside the numbers

    @property
    def alarms(self) -> tuple[Verdict, ...]:
        """The rows that somebody must be told about."""
        return tuple(row for row in self.rows if row.alarm)

    @property
    def measured(self) -> bool:
        """Whether any row rests on a number."""
        return any(row.ratio is not None for row in self.rows)

    def count(self, name: VerdictName) -> int:
        """Rows with that verdict."""
        return sum(row.verdict == name for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        """1 where something changed for the worse, 3 where nothing was measured, else 0.

        A series that stopped is told by 1 beside others that report, and by 3 where none does: then
        the night is at fault and not the code. A store or a device that fails is no verdict: it
        ends the command as an InfrastructureError, with 4.
        """
        silent = [row for row in self.alarms if row.change and row.change.kind == "stopped"]
        if len(silent) < len(self.alarms):
            return ExitCode.NEGATIVE
        if not self.measured:
            return ExitCode.NOTHING_MEASURED
        return ExitCode.NEGATIVE if silent else ExitCode.GOOD
