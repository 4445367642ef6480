"""Samples as bytes: exact, small, and readable by anybody who reads the tag."""

from __future__ import annotations

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st

from harness.store.codec import decode, encode


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_what_goes_in_comes_out(values: list[int]) -> None:
    assert decode(encode(values), "int64-le-zlib") == values


def test_the_tag_says_what_the_bytes_are() -> None:
    assert zlib.decompress(encode([1, -2])) == struct.pack("<qq", 1, -2)


def test_nanoseconds_are_smaller_than_raw_numbers() -> None:
    values = [1_500_000 + (n * 7919) % 1000 for n in range(1000)]
    assert len(encode(values)) < 8 * 1000 / 2
