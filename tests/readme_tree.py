"""The README's tree: every file of the product with the first sentence of its docstring.

`python tests/readme_tree.py --write` brings the README up to date; a test says when it is not.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- tree -->", "<!-- /tree -->"
# Folders of files that explain themselves as a whole; listed without their contents.
CLOSED = {"corpus", "models", "versions", "fakes", "templates", "data"}
FOLDERS = ("harness", "techniques", "kernels", "dashboard")
WIDTH = 110


def phrase(path: Path) -> str:
    """The first sentence of a module's docstring, or of a YAML file's first comment."""
    if path.suffix == ".yaml":
        return path.read_text().splitlines()[0].lstrip("# ").split(". ")[0].rstrip(".")
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = docstring.split("\n\n")[0].replace("\n", " ")
    return first.split(". ")[0].rstrip(".")


def lines(folder: Path, depth: int) -> list[str]:
    """One line a file and folder below `folder`, folders last, links not followed."""
    shown = []
    entries = [p for p in folder.iterdir() if not p.name.startswith((".", "__pycache__"))]
    files = sorted(p for p in entries if p.suffix in (".py", ".yaml") and p.name != "__init__.py")
    for path in files:
        shown.append(line(path.name, phrase(path), depth))
    for path in sorted(p for p in entries if p.is_dir() and not p.is_symlink()):
        own = path / "__init__.py"
        contents = [] if path.name in CLOSED else lines(path, depth + 1)
        if own.exists() or contents:
            shown.append(line(f"{path.name}/", phrase(own) if own.exists() else "", depth))
            shown += contents
    return shown


def line(name: str, text: str, depth: int) -> str:
    """A name at its depth and its phrase, cut to the width."""
    start = f"{'  ' * depth}{name}".ljust(28)
    whole = f"{start} {text}".rstrip()
    return whole if len(whole) <= WIDTH else whole[: WIDTH - 3].rstrip() + "..."


def tree() -> str:
    """The block between the README's marks."""
    shown = []
    for name in FOLDERS:
        own = ROOT / name / "__init__.py"
        shown.append(line(f"{name}/", phrase(own) if own.exists() else "", 0))
        shown += lines(ROOT / name, 1)
    return "\n".join([BEGIN, "```text", *shown, "```", END])


def replaced(readme: str) -> str:
    """The README with its tree as the files now have it."""
    start, end = readme.index(BEGIN), readme.index(END) + len(END)
    return readme[:start] + tree() + readme[end:]


if __name__ == "__main__":
    path = ROOT / "README.md"
    if "--write" in sys.argv:
        path.write_text(replaced(path.read_text()))
    else:
        print(tree())
