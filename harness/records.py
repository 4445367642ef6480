"""Base of every model at a border (YAML, JSON): frozen, and unknown keys are refused."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable record read from or written to the outside."""

    model_config = ConfigDict(frozen=True, extra="forbid")
