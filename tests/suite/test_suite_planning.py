"""Cases: stable order and hashes, stacks that do not fit, globs, and the time planning takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UsageError
from harness.stack import parse
from harness.suite import Planned, Suite, cases, override
from harness.suite.case import Case
from harness.suite.points import GeneratePoint

LoadText = Callable[..., Suite]
MakePlugin = Callable[..., Path]


def titles(planned: list[Planned]) -> list[str]:
    return [entry.case.title for entry in planned]


def test_cases_have_plans_for_their_point(load_text: LoadText) -> None:
    planned = cases(load_text(), "cpu")
    assert titles(planned) == [
        "mha B1 P16 N4", "mha B1 P32 N4", "mha B8 P16 N4", "mha B8 P32 N4",
        "gqa B1 P16 N4", "gqa B1 P32 N4",
        "chat B1 P16 N4", "chat B1 P32 N4", "chat B8 P16 N4", "chat B8 P32 N4",
        "gqa B2 P16 N4",
    ]  # fmt: skip
    for entry in planned:
        assert entry.unsupported is None
        assert entry.plan is not None
        work = entry.case.generated
        assert entry.plan.limits.slots == work.batch
        assert entry.plan.limits.max_tokens == work.prompt_tokens + work.new_tokens
        assert (entry.plan.dtype, entry.plan.backend) == (entry.case.dtype, entry.case.backend)
    kv_heads = {entry.case.label: entry.plan.shape.kv_heads for entry in planned if entry.plan}
    assert kv_heads == {"mha": 4, "gqa": 1, "chat": 2}


def test_planning_equals_resolving_each_case_alone(load_text: LoadText) -> None:
    """What points share is worked out once; it must change nothing."""
    from harness.model.source import find
    from harness.stack import resolve

    suite = override(load_text(), ["dtype=float32,bfloat16", "threads=1,2"])
    for entry in cases(suite, "cpu"):
        case = entry.case
        alone = resolve(
            case.composed,
            find("tiny", [c.technique for c in case.composed.architecture]),
            dtype=case.dtype,
            backend=case.backend,
            slots=case.generated.batch,
            max_tokens=case.generated.prompt_tokens + case.generated.new_tokens,
        )
        assert entry.plan == alone


def test_a_plan_reads_the_limits_of_its_own_point(
    make_plugin: MakePlugin, load_text: LoadText
) -> None:
    """An `apply` that looks at the number of slots sees its own point's, not another one's."""
    apply = "plan.add(f'slots-{plan.limits.slots}-{plan.limits.max_tokens}')"
    registry.install([make_plugin(apply=apply)])
    suite = override(load_text(), ["stacks=extra", "baseline=extra", "include=[]"])
    for entry in cases(suite, "cpu"):
        assert entry.plan is not None
        work = entry.case.generated
        wanted = f"slots-{work.batch}-{work.prompt_tokens + work.new_tokens}"
        assert wanted in entry.plan.traits


def test_a_stack_that_does_not_fit_is_a_case_with_its_reason(load_text: LoadText) -> None:
    suite = override(load_text(), ["stacks=mha,gqa(kv_heads=3)", "include=[]"])
    planned = cases(suite, "cpu")
    assert [entry.plan is not None for entry in planned] == [True] * 4 + [False] * 4
    for entry in planned[4:]:
        assert entry.unsupported is not None
        assert entry.unsupported.startswith("stack 'gqa(kv_heads=3)': ")


def test_a_point_beyond_the_models_places_is_a_case_with_its_reason(load_text: LoadText) -> None:
    planned = cases(override(load_text(), ["workload.prompt_tokens=16,4093"]), "cpu")
    for entry in planned:
        fits = entry.case.generated.prompt_tokens == 16
        assert (entry.plan is not None) == fits
        assert fits or "4097 places and 'tiny' has 4096" in str(entry.unsupported)


def test_a_family_without_a_member_costs_only_its_stacks(
    make_plugin: MakePlugin, load_text: LoadText
) -> None:
    registry.install([make_plugin(name="other", slot="architecture")])
    suite = override(load_text(), ["model=zoo/small", "stacks=mha,other", "include=[]"])
    planned = cases(suite, "cpu")
    assert {entry.case.model for entry in planned if entry.plan} == {"zoo/small-mha"}
    refused = [entry for entry in planned if entry.plan is None]
    assert {entry.case.label for entry in refused} == {"other"}
    assert "has no member for other" in str(refused[0].unsupported)
    assert refused[0].case.model == "zoo/small"
    assert all(entry.case.checkpoint_hash for entry in planned if entry.plan)


@pytest.mark.parametrize(
    ("globs", "found"),
    [
        (["gqa"], ["gqa B1 P16 N4", "gqa B1 P32 N4", "gqa B2 P16 N4"]),
        (["g*"], ["gqa B1 P16 N4", "gqa B1 P32 N4", "gqa B2 P16 N4"]),
        (["* B8 P16 *"], ["mha B8 P16 N4", "chat B8 P16 N4"]),
        (["mha B8 P16 N4", "gqa B2*"], ["mha B8 P16 N4", "gqa B2 P16 N4"]),
        (["*hat*P32*"], ["chat B1 P32 N4", "chat B8 P32 N4"]),
    ],
)
def test_only(load_text: LoadText, globs: list[str], found: list[str]) -> None:
    assert titles(cases(load_text(), "cpu", only=globs)) == found


def test_a_glob_that_matches_nothing_is_refused(load_text: LoadText) -> None:
    with pytest.raises(UsageError, match="unknown --only pattern 'mhaa'; did you mean 'mha'"):
        cases(load_text(), "cpu", only=["gqa", "mhaa"])


def test_labels_are_no_part_of_a_case(load_text: LoadText) -> None:
    named = cases(load_text(), "cpu", only=["chat B1 P16 N4"])[0].case
    suite = load_text("{name: chat, architecture: {gqa: {kv_heads: 2}}}", "'gqa(kv_heads=2)'")
    plain = cases(suite, "cpu", only=["gqa(kv_heads=2) B1 P16 N4"])[0].case
    assert named.hash == plain.hash
    assert named.composed.label != plain.composed.label


def test_adding_an_option_with_a_default_changes_no_hash(make_plugin: MakePlugin) -> None:
    """A technique grows an option; series that began before it go on."""

    def case(path: Path, stack: str) -> Case:
        return Case(
            stack=parse(f"mha+{stack}", [path]),
            model="tiny",
            checkpoint_hash=None,
            workload=GeneratePoint(batch=1, prompt_tokens=2, new_tokens=3),
        )

    before = make_plugin("before", options="size: int = 1")
    after = make_plugin("after", options="size: int = 1\n    depth: int | None = 4")
    for stack in ("extra", "extra(size=2)", "extra(size=1)"):
        assert case(before, stack).hash == case(after, stack).hash
    assert case(after, "extra(depth=4)").hash == case(before, "extra").hash
    assert case(after, "extra(depth=5)").hash != case(before, "extra").hash
    assert case(before, "extra(size=2)").hash != case(before, "extra").hash


def test_a_case_hash_is_the_same_for_ever() -> None:
    """A changed hash cuts every series in the database in two: raise the definition version."""
    case = Case(
        stack=parse("gqa(kv_heads=2)+recompute"),
        model="zoo/small-gqa",
        checkpoint_hash="ab" * 32,
        workload=GeneratePoint(batch=8, prompt_tokens=128, new_tokens=64),
        backend="triton",
        dtype="bfloat16",
        threads=2,
    )
    assert case.hash == "3f8d6d5a2f58d752d63e378866e89ba8d82863de158817e770eda467e3ba0bee"


def test_a_field_with_a_default_changes_no_hash() -> None:
    """Every later workload and option adds fields; without this each one cut history in two."""

    class LaterPoint(GeneratePoint):
        prefix_tokens: int = 0

    class LaterCase(Case):
        draft: str | None = None

    now = GeneratePoint(batch=8, prompt_tokens=128, new_tokens=64)
    later = LaterPoint(batch=8, prompt_tokens=128, new_tokens=64)
    rest = {"stack": parse("mha"), "model": "tiny", "checkpoint_hash": None}
    assert LaterCase(workload=later, **rest).hash == Case(workload=now, **rest).hash
    assert LaterCase(workload=later, draft="x", **rest).hash != Case(workload=now, **rest).hash


def test_suite_hashes_leave_comments_order_and_defaults_out(load_text: LoadText) -> None:
    suite = load_text()
    assert load_text("suite: small", "suite: small  # a comment").hash == suite.hash
    assert load_text("about: A suite to change.\n", "").hash == suite.hash
    assert load_text("dtype: float32\n", "").hash == suite.hash
    assert load_text("slo: chat", "slo: {tpot_ms: 100, ttft_ms: 1000}").hash == suite.hash
    assert load_text("batch: [1, 8]", "batch: [8, 1]").hash != suite.hash
    assert load_text("slo: chat", "slo: batch").hash != suite.hash


def test_planning_time_grows_no_faster_than_the_grid(load_text: LoadText) -> None:
    """Eight times the cases take at most 16 times the CPU time; a quadratic planner takes 64.

    tests/acceptance/planning_speed.py prints the absolute figure.
    """

    def seconds(batches: int) -> float:
        numbers = ",".join(str(n) for n in range(1, batches + 1))
        suite = override(load_text(), [f"workload.batch={numbers}", "include=[]"])
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            cases(suite, "cpu")
            best = min(best, time.process_time() - started)
        return best

    assert seconds(256) < 16 * seconds(32)


def test_several_models_are_an_axis(load_text: LoadText) -> None:
    """A model that is not on this machine costs its own cases only."""
    suite = load_text(
        "cpu: {model: tiny}", "cpu: {model: [tiny, zoo/small, ./gone]}",
        "exclude: [", "exclude: [{model: tiny, batch: 1}, ",
    )  # fmt: skip
    planned = cases(suite, "cpu", ["gqa"])
    assert [(e.case.model, e.case.title) for e in planned if e.runnable] == [
        ("zoo/small-gqa", "gqa B1 P16 N4"),
        ("zoo/small-gqa", "gqa B1 P32 N4"),
        ("tiny", "gqa B2 P16 N4"),
        ("zoo/small-gqa", "gqa B2 P16 N4"),
    ]
    gone = [entry for entry in planned if not entry.runnable]
    assert {entry.case.model for entry in gone} == {"./gone"}
    assert "neither a known name" in (gone[0].unsupported or "")


def test_one_model_written_either_way_is_one_suite(load_text: LoadText) -> None:
    plain, listed = (
        load_text("suite: small", "suite: small\nmodel: tiny"),
        load_text("suite: small", "suite: small\nmodel: [tiny]"),
    )
    assert plain.hash == listed.hash
    assert plain.hash != load_text("suite: small", "suite: small\nmodel: [tiny, zoo/small]").hash


@pytest.mark.parametrize(
    ("stack", "names"),
    [
        ("mha", ("mha",)),
        ("gqa", ("gqa",)),
        ("gqa(kv_heads=1)", ("mqa", "gqa")),
        ("gqa(kv_heads=2)+recompute", ("gqa",)),
        ("dense", ()),
    ],
)
def test_a_family_calls_multi_query_attention_by_its_name(
    stack: str, names: tuple[str, ...]
) -> None:
    assert parse(stack).member_names == names


def test_a_stack_whose_steps_cannot_be_captured_is_a_row_that_says_why(
    load_text: LoadText,
) -> None:
    suite = override(load_text(), ["measure.cuda_graph=true", "backend=triton"])
    assert all(entry.unsupported is None for entry in cases(suite, "cuda"))
    suite = override(suite, ["stacks=mha,mha+recompute"])
    found = {entry.case.label: entry.unsupported for entry in cases(suite, "cuda")}
    assert found["mha"] is None
    assert (found["mha+recompute"] or "").startswith("cuda_graph: without a cache every step")
    assert all(entry.case.cuda_graph for entry in cases(suite, "cuda"))
