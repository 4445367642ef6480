"""Mutants of a made-up kernel: each rule finds its places, all else stays as it was."""

from __future__ import annotations

import ast

from harness.gates.mutants import Mutant, mutants

SOURCE = '''"""A kernel and its launcher."""

import triton
import triton.language as tl

WIDTH = 2 + 2


@triton.jit
def _copy(x, y, x_t, x_h, y_t, n, BLOCK: tl.constexpr):
    """Says 1 + 1 in its docstring."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for i in tl.range(0, n, BLOCK):
        row = tl.load(x + at * x_t + i, mask=at < n, other=0.0)
        if WIDTH > 3:
            row = tl.minimum(row, i)
        tl.store(y + at[:, None] * y_t, row, mask=(at < n) & (i < n))


def copy(x, y):
    """Launch it."""
    n = x.shape[0] - 1
    assert n > 0
    _copy[(n,)](x, y, x.stride(0), x.stride(1), y.stride(0), n, BLOCK=16, num_warps=4)
    return y
'''
FOUND = mutants("made.up", SOURCE)


def of(rule: str) -> list[tuple[str, str]]:
    return [(each.before, each.after) for each in FOUND if each.rule == rule]


def added(mutant: Mutant) -> set[str]:
    """Lines of the whole source, comments and layout apart, that only the mutant has."""
    plain, changed = (ast.unparse(ast.parse(text)).splitlines() for text in (SOURCE, mutant.source))
    return {line.strip() for line in changed} - {line.strip() for line in plain}


def test_comparisons_and_masks() -> None:
    load = "row = tl.load(x + at * x_t + i, mask=at < n, other=0.0)"
    assert (load, load.replace("at < n", "at <= n")) in of("comparison")
    assert of("mask dropped") == [
        (load, load.replace(" mask=at < n,", "")),
        (
            "tl.store(y + at[:, None] * y_t, row, mask=(at < n) & (i < n))",
            "tl.store(y + at[:, None] * y_t, row)",
        ),
    ]
    assert {
        after.partition("mask=")[2] for before, after in of("operand dropped") if "store" in before
    } >= {"at < n)", "i < n)"}


def test_loops_lose_their_first_and_their_last_tile() -> None:
    before = "for i in tl.range(0, n, BLOCK):"
    assert of("first tile dropped") == [(before, "for i in tl.range(0 + BLOCK, n, BLOCK):")]
    assert of("last tile dropped") == [(before, "for i in tl.range(0, n - BLOCK, BLOCK):")]


def test_strides_are_swapped_within_a_tensor_and_between_tensors() -> None:
    assert [after for _, after in of("stride swapped")] == [
        "row = tl.load(x + at * x_h + i, mask=at < n, other=0.0)",
        "row = tl.load(x + at * y_t + i, mask=at < n, other=0.0)",
        "tl.store(y + at[:, None] * x_t, row, mask=(at < n) & (i < n))",
    ]


def test_statements_are_left_out_where_a_value_is_there_without_them() -> None:
    assert of("statement dropped") == [
        ("tl.store(y + at[:, None] * y_t, row, mask=(at < n) & (i < n))", "pass"),
        ("row = tl.minimum(row, i)", "pass"),
    ]
    assert of("extremum") == [("row = tl.minimum(row, i)", "row = tl.maximum(row, i)")]
    assert of("condition negated") == [("if WIDTH > 3:", "if not WIDTH > 3:")]


def test_of_the_launcher_the_launch_alone_is_changed() -> None:
    launched = {each.before for each in FOUND if each.function == "copy"}
    assert len(launched) == 1
    assert next(iter(launched)).startswith("_copy[n,](x, y, x.stride(0)")
    assert all("num_warps=4" in each.after for each in FOUND if each.function == "copy")


def test_each_has_one_change_and_a_key_of_its_own() -> None:
    assert len({each.key for each in FOUND}) == len(FOUND)
    for each in FOUND:
        assert added(each) <= {each.after}, each.key
    assert all("1 + 1 in its docstring" in each.source for each in FOUND)
    assert all("WIDTH = 2 + 2\n" in each.source for each in FOUND)


def test_keys_do_not_change_with_what_stands_elsewhere() -> None:
    longer = SOURCE.replace("WIDTH = 2 + 2", "WIDTH = 2 + 2\nOTHER = 3")
    assert [each.key for each in mutants("made.up", longer)] == [each.key for each in FOUND]
