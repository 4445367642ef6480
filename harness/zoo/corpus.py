"""The text of the zoo: six novels, each cut into a train and a held-out part."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

FOLDER = Path(__file__).parent / "corpus"

# The share of each novel, counted from its end, that no model and no tokenizer is trained on.
HELD_OUT_SHARE = 0.05


@dataclass(frozen=True)
class Novel:
    """One text of the corpus, cut at a paragraph break into two parts."""

    name: str
    train: str
    held_out: str


def read(folder: Path = FOLDER) -> list[Novel]:
    """The novels of a folder of `*.txt` files, by name; UsageError where a part is missing."""
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise UsageError(f"no corpus in '{folder}': it holds no .txt file")
    return [cut(path.stem, path.read_text(encoding="utf-8")) for path in paths]


def cut(name: str, text: str) -> Novel:
    """Cut a text at the last paragraph break before its final 5 %.

    The held-out part is therefore never shorter than its share, by less than a paragraph.
    Raises UsageError when a text has no such break or nothing but white space behind it.
    """
    place = text.rfind("\n\n", 0, int(len(text) * (1 - HELD_OUT_SHARE)))
    held_out = text[place + 2 :]
    if place < 0 or not held_out.strip():
        raise UsageError(
            f"the corpus text '{name}' has no held-out part: it needs a paragraph break (an empty "
            f"line) before its last {HELD_OUT_SHARE:.0%} and text behind it"
        )
    return Novel(name=name, train=text[: place + 2], held_out=held_out)


def digest(novels: list[Novel]) -> str:
    """SHA-256 over names, texts and places of the cuts."""
    sha = hashlib.sha256()
    for novel in novels:
        for part in (novel.name, novel.train, novel.held_out):
            content = part.encode()
            sha.update(len(content).to_bytes(8, "big"))
            sha.update(content)
    return sha.hexdigest()
