"""Samples as bytes: int64, little-endian, zlib.

Integers of nanoseconds compress to a third of the raw floats; zstd gains nothing over zlib here.
"""

import sys
import zlib
from array import array
from collections.abc import Sequence

from harness.errors import UsageError

CODEC = "int64-le-zlib"


def encode(values: Sequence[int]) -> bytes:
    """Bytes of `values` under CODEC. Raises OverflowError beyond 64 bits."""
    numbers = array("q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return zlib.compress(numbers.tobytes())


def decode(data: bytes, codec: str) -> list[int]:
    """The values behind `data`. Raises UsageError for a codec of another harness, or damage."""
    if codec != CODEC:
        raise UsageError(f"samples are stored as '{codec}'; this harness reads {CODEC}")
    numbers = array("q")
    try:
        numbers.frombytes(zlib.decompress(data))
    except (zlib.error, ValueError) as error:
        raise UsageError(f"samples are damaged: {error}") from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
