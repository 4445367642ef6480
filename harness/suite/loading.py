"""A suite from a file, checked in full before anything is planned."""

from __future__ import annotations

from pathlib import Path

from harness import paths
from harness.errors import UsageError, printable_path, unknown
from harness.suite import document
from harness.suite.grid import grid
from harness.suite.kernels import KernelWorkload
from harness.suite.planning import kernel_points
from harness.suite.schema import Suite
from harness.suite.settings import with_profile


def load(path: str | Path) -> Suite:
    """The suite in a file, or the shipped one of that name ("decode").

    Techniques that it names are imported, so that a misspelt one, or a misspelt option, is found
    here; install plugin paths before. UsageError in one sentence, with the line where there is one.
    """
    file = _find(path)
    suite = Suite.of(document.read(_text(file, str(path)), printable_path(path)))
    check(suite)
    return suite


def check(suite: Suite) -> None:
    """Refuse what the keys alone cannot show, under every profile that the suite has."""
    for laid in [suite, *(with_profile(suite, profile) for profile in suite.profiles.given())]:
        if isinstance(laid.workload, KernelWorkload):
            kernel_points(laid)
        else:
            grid(laid)


def shipped() -> list[str]:
    """Names of the suites in the checkout's `suites/` folder."""
    return sorted(file.stem for file in paths.suites().glob("*.yaml"))


def _find(path: str | Path) -> Path:
    """The file that is meant: a path, or the name of a shipped suite."""
    file = Path(path)
    try:
        if file.is_file():
            return file
        if str(path) in shipped():
            return paths.suites() / f"{path}.yaml"
        if file.is_dir():
            raise UsageError(f"the suite '{printable_path(path)}' is a folder; name a file in it")
        beside = [str(f) for f in file.parent.glob("*.y*ml")] if file.parent.is_dir() else []
    except OSError as error:
        raise UsageError(f"{printable_path(path)} cannot be read: {error.strerror}") from error
    raise unknown("suite file", str(path), [*beside, *shipped()])


def _text(file: Path, name: str) -> str:
    shown = printable_path(name)
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{shown}, line {line}: the text is not UTF-8") from error
