"""`harness dashboard`: the Streamlit pages, on this machine only and without telemetry."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from harness import paths
from harness.errors import InfrastructureError, UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def dashboard(
        db: Annotated[
            str | None, typer.Option(envvar="HARNESS_DB", help="Database file or URL.")
        ] = None,
        port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens.")] = 8501,
        address: Annotated[
            str, typer.Option(help="Who may look: 127.0.0.1 is this machine only.")
        ] = "127.0.0.1",
    ) -> None:
        """Look at stored sweeps in a browser. Ctrl-C ends it."""
        page = paths.root() / "dashboard" / "app.py"
        if not page.is_file():
            raise UsageError(f"there is no {page}; the dashboard runs from a checkout")
        if find_spec("streamlit") is None:
            raise UsageError(
                "the dashboard needs streamlit; install it with pip install -e '.[dashboard]'"
            )
        if db is not None:
            # A database that cannot be read is said here, in a sentence, and not in a browser.
            from harness.store import open_reader

            open_reader(db).close()
        print(f"http://{address}:{port}  (Ctrl-C ends it)")
        code = _serve(command(str(page), address, port), environment(db))
        if code not in (0, -2, 130):
            raise InfrastructureError(f"streamlit ended with exit code {code}; see its lines above")


def command(page: str, address: str, port: int) -> list[str]:
    """What is started."""
    return [
        sys.executable, "-P", "-m", "streamlit", "run", page,
        "--server.address", address,
        "--server.port", str(port),
        "--server.headless", "true",
        "--server.fileWatcherType", "none",
        "--client.toolbarMode", "minimal",
    ]  # fmt: skip


def environment(db: str | None) -> dict[str, str]:
    """This process's environment with the database, and with telemetry off for certain.

    A config.toml is only read from some folders; the variable holds wherever it is started.
    """
    known = dict(os.environ)
    known["STREAMLIT_BROWSER_GATHER_USAGE_STATS"] = "false"
    if db is not None:
        known["HARNESS_DB"] = db
    return known


def _serve(arguments: list[str], variables: dict[str, str]) -> int:
    process = subprocess.Popen(arguments, env=variables)
    try:
        return process.wait()
    except KeyboardInterrupt:
        # The terminal sent it to the child too; give it time to close its sockets.
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
