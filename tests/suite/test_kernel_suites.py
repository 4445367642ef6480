"""Suites of kernels: shapes multiply, stacks and models have no place, faults are one sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.errors import UsageError
from harness.suite import Suite, cases, override
from harness.suite.points import KernelPoint

LoadText = Callable[..., Suite]

KERNELS = """\
suite: kernels
workload:
  kind: kernel
  shapes:
    - {kernel: linear, sizes: {B: [1, 8], D: 16, F: [4, 5]}}
    - {kernel: decode_attention, sizes: {B: 2, S: 10, N: 2, K: 1, H: 16}}
dtype: [float32, float16]
"""


def test_shapes_multiply_with_dtypes(load_text: LoadText) -> None:
    planned = cases(load_text(text=KERNELS), "cpu")
    assert [f"{entry.case.title} {entry.case.dtype}" for entry in planned][::2] == [
        "linear B1 D16 F4 float32",
        "linear B1 D16 F5 float32",
        "linear B8 D16 F4 float32",
        "linear B8 D16 F5 float32",
        "decode_attention B2 S10 N2 K1 H16 float32",
    ]
    assert all(entry.runnable for entry in planned)
    last = planned[-1].case
    assert (last.stack, last.model, last.checkpoint_hash) == (None, "", None)
    assert isinstance(last.workload, KernelPoint)
    assert last.workload.sizes["block"] == 0, "what a shape may leave out is 0"


def test_cases_of_kernels_are_kept_by_globs(load_text: LoadText) -> None:
    suite = override(load_text(text=KERNELS), ["dtype=float32"])
    assert len(cases(suite, "cpu", ["linear B8*"])) == 2
    assert len(cases(suite, "cpu", ["decode_attention"])) == 1


def test_peers_are_part_of_what_is_measured(load_text: LoadText) -> None:
    plain = cases(load_text(text=KERNELS), "cpu")[-1].case
    beside = cases(load_text("H: 16}}", "H: 16}, peers: [flash, eager]}", text=KERNELS), "cpu")
    point = beside[-1].case.workload
    assert isinstance(point, KernelPoint)
    assert point.peers == ("flash", "eager")
    assert beside[-1].case.hash != plain.hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kernel: linear", "kernel: linaer", "line 4: unknown kernel 'linaer'; did you mean"),
        ("D: 16, F", "D: 16, Q: 3, F", "line 4: unknown size of kernel 'linear' 'Q'; known: B, D,"),
        ("S: 10, ", "", "line 4: kernel 'decode_attention' needs a size S"),
        ("B: [1, 8]", "B: [1, -8]", "line 5: workload.shapes[0].sizes.B must be at least 0"),
        ("B: [1, 8]", "B: []", "sizes.B must not be empty"),
        ("H: 16}}", "H: 16}, peers: flahs}",
         "line 4: unknown peer of kernel 'decode_attention' 'flahs'; did you mean 'flash'?"),
        ("F: [4, 5]}}", "F: 4}, peers: [flash]}",
         "line 4: unknown peer of kernel 'linear' 'flash'; known: eager"),
        ("dtype:", "stacks: [mha]\ndtype:", "kernels have no stack and no model: take out stacks"),
        ("dtype:", "model: tiny\ndtype:", "kernels have no stack and no model: take out model"),
        ("kind: kernel", "kind: kernels",
         "workload.kind must be one of 'generate', 'serve', 'quality', 'kernel'"),
        ("F: [4, 5]}}\n", "F: 4}}\n    - {kernel: linear, sizes: {B: 8, D: 16, F: 4}}\n",
         "line 4: the kernel shape 'linear B8 D16 F4' stands twice"),
    ],
)  # fmt: skip
def test_message(load_text: LoadText, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_text(old, new, text=KERNELS)
    assert message in str(caught.value)


def test_a_suite_that_generates_still_needs_its_stacks(load_text: LoadText) -> None:
    with pytest.raises(UsageError, match=r"small\.yaml: the key 'stacks' is missing"):
        load_text("stacks: [mha, gqa, {name: chat, architecture: {gqa: {kv_heads: 2}}}]\n", "",
                  "baseline: mha\n", "")  # fmt: skip
