"""`harness new technique`: a folder that passes its gates, to be changed into a new technique."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from harness.errors import UsageError, printable, unknown

_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")


def register(app: typer.Typer) -> None:
    """Add the group `new` to the application."""
    group = typer.Typer(name="new", help="Write skeletons.", no_args_is_help=True)

    @group.callback()
    def _group() -> None:
        """Write skeletons."""

    group.command()(technique)
    app.add_typer(group)


def technique(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits, _.")],
    slot: Annotated[
        str,
        typer.Option(help="architecture, weights, cache, decoding or scheduling."),
    ],
    title: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where its folder goes; by default techniques/."),
    ] = None,
) -> None:
    """Write a technique's folder. It passes its gates at once, as its slot's baseline does."""
    from harness import paths
    from harness.technique import Slot

    if slot not in tuple(Slot):
        raise unknown("slot", slot, Slot)
    _require_free(name)
    parent = into or paths.root() / "techniques"
    written = write(Slot(slot), name, title or name.replace("_", " ").capitalize(), parent)
    for file in written:
        typer.echo(f"wrote {file}")
    where = f" --plugin-path {into}" if into else ""
    typer.echo(f"next: harness show {name}{where}; harness verify {name}{where}")


def write(slot: str, name: str, title: str, parent: Path) -> list[Path]:
    """Write a slot's skeleton to parent/name; the files. UsageError where that is not possible."""
    if not title.isprintable() or '"' in title or "\\" in title or len(title) > 60:
        raise UsageError(
            f"the title {printable(title, 70)!r} cannot stand in a line of code; it has at most "
            "60 characters, without quotes and backslashes"
        )
    folder = parent / name
    skeletons = Path(__file__).parent.parent / "skeletons" / slot
    words = {
        "name": name,
        "title": title,
        "Class": "".join(part.capitalize() for part in name.split("_")),
    }
    written = []
    try:
        folder.mkdir(parents=True)
        for skeleton in sorted(skeletons.glob("*.txt")):
            file = folder / skeleton.name.removesuffix(".txt")
            text = Template(skeleton.read_text(encoding="utf-8")).substitute(words)
            file.write_text(text, encoding="utf-8")
            written.append(file)
    except FileExistsError as error:
        raise UsageError(f"{folder} exists already; choose another name") from error
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    return written


def _require_free(name: str) -> None:
    """Refuse a name that Python cannot import or that a technique has already."""
    from harness import registry

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UsageError(
            f"'{printable(name)}' cannot name a technique; use lower-case letters, digits and _, "
            "at most 24 of them, and no word of Python"
        )
    if name in registry.names():
        raise UsageError(f"there is a technique '{name}' already; 'harness show {name}' tells more")
