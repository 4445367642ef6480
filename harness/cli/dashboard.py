"""`harness dashboard`: the Streamlit pages, on this machine only and without telemetry."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from harness import paths
from harness.cli.listing import Database
from harness.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def dashboard(
        db: Database = None,
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
        print(f"http://{address}:{port}  (Ctrl-C ends it)", flush=True)
        # This process becomes the server, so that every signal ends it and nothing is left over.
        os.execve(sys.executable, command(str(page), address, port), environment(db))  # noqa: S606


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
