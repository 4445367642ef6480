"""The head of a GGUF file: metadata, and where its tensors lie. Imports nothing heavy.

Planning reads it, so it is read in a tenth of a second; the `gguf` package's reader, which maps
every string of a vocabulary to an array of its own, takes seven seconds for 49,152 of them. Numbers
are decoded by that package, in `harness.model.gguf_tensors`.

Source: the GGUF specification, docs/gguf.md of ggml, versions 2 and 3 (little-endian).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError, printable, printable_path

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
# Far above any file's, so that a count out of noise is refused before memory is asked for.
_MOST_DIMENSIONS = 4
_MOST_NUMBERS = 1 << 40

# GGUF's number of each scalar type, and how `struct` reads it.
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: its shape as torch has it, GGML's number of its type, its place in the file."""

    shape: tuple[int, ...]
    type: int
    offset: int  # of its first byte, from the file's start


@dataclass(frozen=True)
class Header:
    """What a GGUF file says about itself."""

    path: Path
    metadata: Mapping[str, Any] = field(repr=False)
    tensors: Mapping[str, TensorInfo] = field(repr=False)
    size: int  # of the file, bytes

    def error(self, sentence: str) -> UsageError:
        """A fault of this file."""
        return UsageError(f"{printable_path(self.path)}: {sentence}")


def read(path: Path) -> Header:
    """The head of a file. UsageError, one sentence that names it, for one that is cut off, is no
    GGUF file, or says what cannot be."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < len(_MAGIC):
                raise UsageError(f"{printable_path(path)} is no GGUF file: it has {size} bytes")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _Reader(path, content, size).header()
    except OSError as error:
        raise UsageError(f"{printable_path(path)} cannot be read: {error.strerror}") from error


class _Reader:
    """Walks through a file's head; nothing outside the file is ever asked for."""

    def __init__(self, path: Path, content: mmap.mmap, size: int) -> None:
        self._path, self._content, self._size = path, content, size
        self._at = 0

    def header(self) -> Header:
        if self._take(4) != _MAGIC:
            raise self._error("is no GGUF file: it does not begin with 'GGUF'")
        version = self._scalar("<I")
        if version not in _VERSIONS:
            raise self._error(f"is GGUF version {version}; read are {_VERSIONS[0]} and 3")
        tensors, keys = self._scalar("<Q"), self._scalar("<Q")
        metadata = {}
        for _ in range(keys):
            key = self._string()
            metadata[key] = self._value(self._scalar("<I"), key)
        named = [self._tensor() for _ in range(tensors)]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._error(f"aligns its tensors to {alignment}, which is no power of two")
        start = -(-self._at // alignment) * alignment
        found = {}
        for name, info in named:
            if name in found:
                raise self._error(f"names the tensor '{printable(name)}' twice")
            found[name] = TensorInfo(info.shape, info.type, start + info.offset)
        return Header(self._path, metadata, found, self._size)

    def _tensor(self) -> tuple[str, TensorInfo]:
        name = self._string()
        count = self._scalar("<I")
        if not 0 < count <= _MOST_DIMENSIONS:
            raise self._error(f"gives the tensor '{printable(name)}' {count} dimensions")
        # GGML names the fastest dimension first.
        shape = tuple(reversed([int(self._scalar("<Q")) for _ in range(count)]))
        total = 1
        for size in shape:
            total *= size
        if not 0 < total <= _MOST_NUMBERS:
            raise self._error(f"gives the tensor '{printable(name)}' the shape {list(shape)}")
        return name, TensorInfo(shape, self._scalar("<I"), self._scalar("<Q"))

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind != _ARRAY:
            raise self._error(f"gives '{printable(key)}' a value of the unknown type {kind}")
        inner, count = self._scalar("<I"), self._scalar("<Q")
        if inner == _STRING:
            return self._each(self._string, count)
        if inner not in _SCALARS:
            raise self._error(f"gives '{printable(key)}' a list of the type {inner}")
        form = _SCALARS[inner]
        raw = self._take(count * struct.calcsize(form))
        return list(struct.unpack(f"<{count}{form[1:]}", raw))

    def _each(self, read: Callable[[], str], count: int) -> list[str]:
        # A string has a length of eight bytes: so many there cannot be.
        if count > (self._size - self._at) // 8:
            raise self._cut()
        return [read() for _ in range(count)]

    def _scalar(self, form: str) -> Any:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _string(self) -> str:
        raw = self._take(self._scalar("<Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self._error(f"has text at byte {self._at} that is no UTF-8") from None

    def _take(self, count: int) -> bytes:
        if count > self._size - self._at:
            raise self._cut()
        self._at += count
        return self._content[self._at - count : self._at]

    def _cut(self) -> UsageError:
        return self._error(f"is cut off: its head goes on behind its {self._size:,} bytes")

    def _error(self, sentence: str) -> UsageError:
        return UsageError(f"{printable_path(self._path)} {sentence}")
