"""A checkpoint folder's `config.json`, by its family. Imports no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.errors import UsageError, printable
from harness.model import families
from harness.shape import ModelShape
from harness.suite.validation import validate


@dataclass(frozen=True)
class Declared:
    """What a config declares."""

    shape: ModelShape
    family: str  # its module, see `harness.model.families`
    eos: int | None  # the token that ends a sequence


class _Common(BaseModel):
    """What configs of every family may say; what else stands there is the family's."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    architectures: list[str] | None = None
    eos_token_id: int | list[int] | None = None


def read(folder: Path) -> Declared:
    """What the config of a checkpoint folder declares.

    Raises UsageError, one sentence that names the file, where it is missing or no JSON, names
    another family, lacks a key, or asks for what this model does not compute.
    """
    path = folder / "config.json"
    content = _content(folder, path)
    common = validate(_Common, content, lambda _: str(path))
    declared = (common.architectures or ["none named"])[0]
    known = families.known()
    if declared not in known:
        raise UsageError(f"{path} declares {printable(declared)}; supported: {', '.join(known)}")
    family = known[declared]
    shape = families.of(family).shape(content, str(path))
    eos = common.eos_token_id
    if isinstance(eos, list):
        eos = eos[0] if eos else None
    return Declared(shape, family, eos)


def _content(folder: Path, path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no config.json, so it is no checkpoint folder") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON: line {error.lineno}: {error.msg}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not JSON: it is no UTF-8 text") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold a JSON object, it holds a {type(content).__name__}")
    return content
