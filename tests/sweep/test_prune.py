from collections.abc import Callable
from typing import Any

import pytest

from harness.suite.case import Case
from harness.sweep.prune import dominated_by

MakeCase = Callable[..., Case]


@pytest.mark.parametrize(
    ("sizes", "pruned"),
    [
        ({"batch": 8, "prompt": 128, "new": 64}, True),  # the case itself
        ({"batch": 9, "prompt": 128, "new": 64}, True),
        ({"batch": 8, "prompt": 1024, "new": 65}, True),
        ({"batch": 7, "prompt": 1024, "new": 64}, False),
        ({"batch": 16, "prompt": 127, "new": 64}, False),
        ({"batch": 16, "prompt": 128, "new": 63}, False),
    ],
)
def test_every_size_must_be_no_smaller(
    make_case: MakeCase, sizes: dict[str, int], pruned: bool
) -> None:
    exhausted = make_case(batch=8, prompt=128, new=64)
    assert dominated_by(make_case(**sizes), [exhausted]) == (exhausted if pruned else None)


@pytest.mark.parametrize(
    "changes",
    [
        {"label": "gqa"},
        {"model": "llama-3-8b"},
        {"backend": "triton"},
        {"dtype": "bfloat16"},
        {"threads": 2},
        {"cuda_graph": True},
        {"checkpoint_hash": "c"},
    ],
)
def test_another_kind_is_not_pruned(make_case: MakeCase, changes: dict[str, Any]) -> None:
    assert dominated_by(make_case(batch=64, **changes), [make_case(batch=8)]) is None


def test_label_does_not_matter(make_case: MakeCase) -> None:
    case = make_case(batch=64)
    renamed = case.model_copy(update={"stack": case.composed.model_copy(update={"label": "chat"})})
    assert dominated_by(renamed, [make_case(batch=8)]) is not None


def test_nothing_exhausted(make_case: MakeCase) -> None:
    assert dominated_by(make_case(), []) is None
