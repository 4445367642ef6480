"""What a command's exit code says: one place for all of them."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended. A signal that cuts one short gives `interrupted(signum)` instead."""

    GOOD = 0
    NEGATIVE = 1  # a gate is red, a case failed, the machine would spoil numbers
    BAD_INPUT = 2
    NOTHING_MEASURED = 3
    INFRASTRUCTURE = 4  # no database or no device


def interrupted(signum: int) -> int:
    """The code of a command that a signal ended, as shells report it: 130 for Ctrl-C."""
    return 128 + signum
