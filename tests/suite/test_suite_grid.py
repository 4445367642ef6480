"""Grids: their order, what exclude takes out, what include adds."""

from __future__ import annotations

from collections.abc import Callable

from harness.suite import Suite, with_profile
from harness.suite.grid import Grid, grid
from harness.suite.workloads import GenerateWorkload

LoadText = Callable[..., Suite]

NO_RULES = (
    "exclude: [{stack: gqa, batch: 8}]\n", "",
    "include: [{stack: gqa, batch: 2, prompt_tokens: 16}]\n", "",
)  # fmt: skip


def short(built: Grid) -> list[str]:
    """Points as "mha 1 16": stack, batch, prompt."""
    keys = list(built.axes)
    wanted = [keys.index(key) for key in ("stack", "batch", "prompt_tokens")]
    return [" ".join(str(point[i]) for i in wanted) for point in built.points()]


def test_grids_multiply_in_a_stable_order(load_text: LoadText) -> None:
    built = grid(load_text(*NO_RULES, "dtype: float32", "dtype: [float32, bfloat16]"))
    assert list(built.axes) == [
        "stack", "model", "backend", "dtype", "threads", "batch", "prompt_tokens", "new_tokens",
    ]  # fmt: skip
    points = built.points()
    assert len(points) == built.size == 3 * 2 * 2 * 2
    assert points[:5] == [
        ("mha", "", "torch", "float32", 1, 1, 16, 4),
        ("mha", "", "torch", "float32", 1, 1, 32, 4),
        ("mha", "", "torch", "float32", 1, 8, 16, 4),
        ("mha", "", "torch", "float32", 1, 8, 32, 4),
        ("mha", "", "torch", "bfloat16", 1, 1, 16, 4),
    ]
    assert [point[0] for point in points[::8]] == ["mha", "gqa", "chat"]


def test_exclude_needs_every_key_that_it_names(load_text: LoadText) -> None:
    built = grid(load_text(*NO_RULES[2:]))
    assert short(built) == [
        "mha 1 16", "mha 1 32", "mha 8 16", "mha 8 32",
        "gqa 1 16", "gqa 1 32",
        "chat 1 16", "chat 1 32", "chat 8 16", "chat 8 32",
    ]  # fmt: skip


def test_exclude_takes_lists_and_several_entries(load_text: LoadText) -> None:
    rules = "exclude: [{stack: [gqa, chat], prompt_tokens: [16, 99]}, {batch: 8}]\n"
    built = grid(load_text(*NO_RULES[2:], NO_RULES[0], rules))
    assert short(built) == ["mha 1 16", "mha 1 32", "gqa 1 32", "chat 1 32"]


def test_a_stack_may_be_written_in_another_way(load_text: LoadText) -> None:
    """A rule's stack is a label, or any text for the same stack."""
    rules = "exclude: [{stack: 'gqa(kv_heads=2)+contiguous'}, {stack: static+gqa}]\n"
    spelled = ("baseline: mha", "baseline: mha+dense")
    built = grid(load_text(*NO_RULES[2:], NO_RULES[0], rules, *spelled))
    assert {point[0] for point in built.points()} == {"mha"}
    assert built.baseline == "mha"


def test_a_rule_about_a_stack_that_is_not_listed_takes_nothing_out(load_text: LoadText) -> None:
    built = grid(load_text(*NO_RULES[2:], NO_RULES[0], "exclude: [{stack: mha+recompute}]\n"))
    assert len(built.points()) == 12


def test_include_adds_after_exclude_with_every_value_of_other_keys(load_text: LoadText) -> None:
    rules = "include: [{stack: gqa, batch: [8, 2], prompt_tokens: 64}, {stack: gqa, batch: 8}]\n"
    built = grid(load_text(NO_RULES[2], rules))
    assert short(built)[10:] == ["gqa 8 64", "gqa 2 64", "gqa 8 16", "gqa 8 32"]


def test_include_adds_no_point_twice(load_text: LoadText) -> None:
    built = grid(load_text(NO_RULES[2], "include: [{stack: mha}, {batch: 1}]\n"))
    assert len(built.points()) == 10


def test_include_may_bring_a_stack_of_its_own(load_text: LoadText) -> None:
    rules = (
        "include: [{stack: 'mha+recompute', batch: 1, prompt_tokens: 16}, "
        "{stack: mha+dense+recompute}]\n"
    )
    built = grid(load_text(NO_RULES[2], rules))
    assert list(built.stacks) == ["mha", "gqa", "chat", "mha+recompute"]
    assert short(built)[10:] == [
        "mha+recompute 1 16", "mha+recompute 1 32", "mha+recompute 8 16", "mha+recompute 8 32",
    ]  # fmt: skip


def test_the_first_stack_is_the_baseline_unless_one_is_named(load_text: LoadText) -> None:
    assert grid(load_text("baseline: mha\n", "")).baseline == "mha"
    assert grid(load_text("baseline: mha", "baseline: chat")).baseline == "chat"


def test_profiles_are_laid_over(load_text: LoadText) -> None:
    suite = load_text()
    cpu, cuda = with_profile(suite, "cpu"), with_profile(suite, "cuda")
    assert isinstance(cpu.workload, GenerateWorkload)
    assert isinstance(cuda.workload, GenerateWorkload)
    assert (cpu.model, cpu.dtype, cpu.workload.batch) == (("tiny",), ("float32",), (1, 8))
    assert (cuda.model, cuda.dtype) == (("llama-3-8b",), ("bfloat16",))
    assert cuda.workload.batch == (64,), "lists are replaced"
    assert cuda.workload.prompt_tokens == (16, 32), "mappings are merged"
    assert cuda.profiles.given() == ()
    assert with_profile(cuda, "cpu").hash == cuda.hash
