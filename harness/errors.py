"""Errors a user can cause, and the exit code each one ends a command with."""

from collections.abc import Iterable
from difflib import get_close_matches

from harness.exit_codes import ExitCode


class HarnessError(Exception):
    """Something a user can read and act on: one sentence, shown without a traceback."""

    exit_code = ExitCode.BAD_INPUT


class UsageError(HarnessError):
    """Bad input: a file, a key, a name or a value."""


class UnfitError(UsageError):
    """A stack whose parts do not work together, or do not work with this model."""


class NothingMeasuredError(HarnessError):
    """The command ran, and no case was measured."""

    exit_code = ExitCode.NOTHING_MEASURED


class InfrastructureError(HarnessError):
    """The store cannot be reached, or there is no device to measure on."""

    exit_code = ExitCode.INFRASTRUCTURE


def printable(text: str, limit: int = 80) -> str:
    """The text on one line, for a sentence: what cannot be printed is escaped, the rest is cut."""
    shown = text if len(text) <= limit else f"{text[: limit - 3]}..."
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def printable_path(path: object, limit: int = 240) -> str:
    """A path on one line. What is too long loses its beginning: the end says which file it is."""
    text = str(path)
    return printable(text if len(text) <= limit else f"...{text[3 - limit :]}", limit)


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """An error for a name that does not exist, with the closest one that does.

    Args:
        kind: what the name was meant to name, for example "technique".
        name: the name as given.
        known: every name that would have been accepted.
    """
    choices = sorted(known)
    name = printable_path(name) if "/" in name else printable(name)
    begun = [choice for choice in choices if len(name) > 2 and choice.startswith(name)]
    close = begun or get_close_matches(name, choices, n=1, cutoff=0.5)
    if close:
        return UsageError(f"unknown {kind} '{name}'; did you mean '{close[0]}'?")
    listed = ", ".join(choices) if choices else "none"
    return UsageError(f"unknown {kind} '{name}'; known: {listed}")
