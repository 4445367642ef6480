"""A model's tokenizer: a tokenizer.json, or what a GGUF file holds of one. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import tokenizers
from tokenizers import AddedToken, pre_tokenizers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE

from harness.errors import UsageError, printable
from harness.model import gguf
from harness.model.gguf import Header

_KEY = "tokenizer.ggml"
# What splits a text before its pieces are encoded, by GGUF's name of it; "" is a file without one.
# Source: llama.cpp, src/llama-vocab.cpp; "smollm" puts every digit alone.
_SPLITS = {
    "": False,
    "default": False,
    "gpt-2": False,
    "smollm": True,
}
T = TypeVar("T")
_CONTROL = 3  # GGUF's type of a token that is no text: <|im_start|>


def load(path: Path, entries: int | None) -> tokenizers.Tokenizer:
    """The tokenizer in a file, for a model with a vocabulary of `entries`; None asks for no number.

    UsageError, one sentence, where it cannot be read or has more entries than the model.
    """
    try:
        if path.suffix == ".gguf":
            tokenizer = _from_gguf(gguf.read(path))
        else:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except UsageError:
        raise
    # The library raises a plain Exception for everything.
    except Exception as error:
        raise UsageError(
            f"cannot read the tokenizer '{path}': {printable(str(error), 200)}"
        ) from error
    count = tokenizer.get_vocab_size()
    if entries is not None and count > entries:
        raise UsageError(
            f"the tokenizer '{path}' has {count} entries and does not fit a model with a "
            f"vocabulary of {entries}"
        )
    return tokenizer


def _from_gguf(header: Header) -> tokenizers.Tokenizer:
    """Byte-level BPE out of the metadata of a GGUF file; encoding adds no special token."""
    kind = header.metadata.get(f"{_KEY}.model", "none named")
    if kind != "gpt2":
        raise header.error(f"the tokenizer is {printable(str(kind))}; read is gpt2, byte-level BPE")
    split = header.metadata.get(f"{_KEY}.pre", "")
    if split not in _SPLITS:
        known = ", ".join(name for name in _SPLITS if name)
        raise header.error(f"the tokenizer splits text by '{printable(str(split))}'; read: {known}")
    tokens = _list(header, "tokens", str)
    merges = []
    for merge in _list(header, "merges", str):
        first, _, second = merge.partition(" ")
        merges.append((first, second))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(BPE(vocab=vocabulary, merges=merges))
    digits = [pre_tokenizers.Digits(individual_digits=True)] if _SPLITS[split] else []
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, words])
    tokenizer.decoder = ByteLevelDecoder()
    if f"{_KEY}.token_type" in header.metadata:
        kinds = _list(header, "token_type", int)
        tokenizer.add_special_tokens(
            [
                AddedToken(token, special=True, normalized=False)
                for token, kind in zip(tokens, kinds, strict=False)
                if kind == _CONTROL
            ]
        )
    return tokenizer


def _list(header: Header, name: str, kind: type[T]) -> list[T]:
    found = header.metadata.get(f"{_KEY}.{name}")
    if not isinstance(found, list) or not all(isinstance(each, kind) for each in found):
        raise header.error(f"the list {_KEY}.{name} of its tokenizer is missing")
    return found
