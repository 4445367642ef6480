"""Stacks: how they are written, what fits together, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import registry
from harness.errors import UnfitError, UsageError
from harness.fit import RULES
from harness.model.source import ModelSource, find
from harness.plan import EnginePlan, Trait
from harness.shape import ModelShape
from harness.stack import completed, parse, resolve, techniques
from harness.suite.case import Choice, StackSpec
from harness.technique import Slot

MakePlugin = Callable[..., Path]

SHAPE = ModelShape(
    vocab=101, width=64, layers=4, heads=8, kv_heads=8, head_dim=8, ff=96, max_len=512
)
RANDOM = ModelSource("made-up", "random", SHAPE)
TRAINED = ModelSource("made-up", "trained", SHAPE, checkpoint_hash="0" * 64)


def plan(
    stack: str | dict[str, Any], source: ModelSource = RANDOM, max_tokens: int = 64
) -> EnginePlan:
    return resolve(
        parse(stack), source, dtype="float32", backend="torch", slots=2, max_tokens=max_tokens
    )


def test_text_fills_slots_by_the_techniques_own_slot() -> None:
    stack = parse("recompute+gqa")
    assert stack.architecture == (Choice(technique="gqa"),)
    assert stack.cache == Choice(technique="recompute")
    assert stack.weights == Choice(technique="dense")
    assert stack.decoding == Choice(technique="autoregressive")
    assert stack.scheduling == Choice(technique="static")
    assert stack.label == "gqa+recompute"


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("mha", "mha"),
        ("contiguous", "contiguous"),
        (" mha + static ", "mha"),
        ("gqa( kv_heads = 2 )", "gqa(kv_heads=2)"),
        ("gqa(kv_heads=null)", "gqa"),
        ("gqa()", "gqa"),
        ("static(pad_finished=true, emit_at_end=false)", "static(pad_finished=true)"),
        ({"architecture": {"gqa": {"kv_heads": 2}}}, "gqa(kv_heads=2)"),
        ({"architecture": {"gqa": None}, "cache": "recompute"}, "gqa+recompute"),
        ({"architecture": "gqa(kv_heads=4)"}, "gqa(kv_heads=4)"),
        ({"name": "chat", "architecture": {"gqa": {}}}, "chat"),
        ({"name": "plain"}, "plain"),
    ],
)
def test_label(written: str | dict[str, Any], label: str) -> None:
    assert parse(written).label == label


def test_only_options_that_differ_from_their_defaults_are_kept() -> None:
    explicit = parse("static(pad_finished=false,emit_at_end=true)")
    assert explicit.scheduling.options == {"emit_at_end": True}
    assert parse("static(pad_finished=false)").scheduling.options == {}


TEXTS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**15) + 1, 10**15 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=12),
)  # fmt: skip


NESTED = st.dictionaries(st.text("ab", max_size=3), TEXTS, max_size=3)


@settings(deadline=None)
@given(value=st.one_of(TEXTS, st.lists(TEXTS, max_size=3), NESTED))
def test_a_label_reads_back_to_the_same_stack(value: Any) -> None:
    """Whatever value an option has, the label spells it so that `parse` reads it again."""
    from harness.stacktext import from_text, label

    stack = StackSpec(
        label="",
        architecture=(Choice(technique="gqa"), Choice(technique="cla", options={"a": value})),
        weights=Choice(technique="dense"),
        cache=Choice(technique="paged", options={"b": value, "c": 1}),
        decoding=Choice(technique="autoregressive"),
        scheduling=Choice(technique="static"),
    )
    parts = from_text(label(stack))[1]
    read = [(part.technique, part.options) for part in parts]
    assert read == [("gqa", {}), ("cla", {"a": value}), ("paged", {"b": value, "c": 1})]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("gqq", "unknown technique 'gqq'; did you mean 'gqa'?"),
        ("mha+", "stack 'mha+' has no technique where '' stands"),
        ("mha++gqa", "has no technique where '' stands"),
        ("", "has no technique where '' stands"),
        ("gqa(kv_heads=2", "stack 'gqa(kv_heads=2' misses a closing ')'"),
        ("gqa)", "closes a ')' that is not open"),
        ("gqa(kv_heads=[1)", "closes a ')' that is not open"),
        ("gqa(2)", "options are written option=value, each once (got '2')"),
        ("gqa(kv_heads=)", "options are written option=value"),
        ("gqa(kv_heads=1,kv_heads=2)", "each once (got 'kv_heads=2')"),
        ("gqa(kv_head=2)", "technique 'gqa': unknown option 'kv_head'; did you mean 'kv_heads'?"),
        ("mha(size=2)", "technique 'mha': unknown option 'size'; known: none"),
        ("gqa(kv_heads=0)", "technique 'gqa': kv_heads must be greater than 0 (got 0)"),
        ("gqa(kv_heads=two)", "technique 'gqa': kv_heads must be a whole number (got 'two')"),
        ("gqa(kv_heads=true)", "technique 'gqa': kv_heads must be a whole number (got true)"),
        ("gqa(kv_heads=2.5)", "technique 'gqa': kv_heads must be a whole number (got 2.5)"),
        ("static(pad_finished=1)", "pad_finished must be true or false (got 1)"),
        ("contiguous+recompute", "fills the slot cache twice, with 'contiguous' and 'recompute'"),
        ("gqa+gqa", "names 'gqa' twice"),
        ("mha+gqa", "combines the baseline 'mha' with another architecture"),
        ("x" * 2000, "is longer than 1000 characters"),
        ({"cach": "paged"}, "unknown slot 'cach'; did you mean 'cache'?"),
        ({"cache": "gqa"}, "technique 'gqa' fills the slot architecture, not cache"),
        ({"cache": 3}, "the slot cache of a stack takes a technique or a mapping"),
        ({"cache": {"contiguous": 3}}, "the options of 'contiguous' must be a mapping"),
        ({"cache": {}}, "the slot cache of a stack takes a technique or a mapping"),
        ({"name": ""}, 'the stack name "" is not allowed'),
        ({"name": "a\nb"}, "the stack name"),
        ({"name": 3}, "the stack name 3 is not allowed"),
    ],
)
def test_what_is_wrong_with_a_stack_is_one_sentence(
    written: str | dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse(written)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_techniques_come_in_order_of_apply_with_full_options() -> None:
    parts = techniques(parse("static(pad_finished=true)+recompute+gqa"))
    assert [technique.name for technique, _ in parts] == [
        "gqa", "dense", "recompute", "autoregressive", "static",
    ]  # fmt: skip
    given = {"pad_finished": True, "emit_at_end": False, "batch": None}
    assert parts[-1][1].model_dump() == given


def test_plugins_are_part_of_stacks(make_plugin: MakePlugin) -> None:
    path = make_plugin(options="size: int = 1")
    stack = parse("gqa+extra(size=3)", [path])
    assert stack.cache == Choice(technique="extra", options={"size": 3})
    assert stack.label == "gqa+extra(size=3)"


def test_resolve_gives_every_slot_its_factory() -> None:
    made = plan("gqa(kv_heads=2)")
    assert made.shape.kv_heads == 2
    assert (made.limits.slots, made.limits.max_tokens) == (2, 64)
    assert made.cache is not None
    assert made.decoder is not None
    assert made.scheduler is not None
    assert {Trait.TOKEN_STATE, Trait.INCREMENTAL} <= made.traits


def test_several_architectures_edit_different_numbers() -> None:
    made = plan("gqa(kv_heads=2)+cla(share=2)+local(window=16)")
    assert (made.shape.kv_heads, made.shape.kv_share, made.shape.windows) == (2, 2, (16,) * 4)


def test_the_order_in_which_architectures_are_written_changes_nothing() -> None:
    """`mla+gqa` was costed as grouped queries, with four times the state that it keeps, and
    `cla+gqa` was another case than `gqa+cla`."""
    assert parse("local+cla+gqa(kv_heads=2)") == parse("gqa(kv_heads=2)+cla+local")
    first, second = parse("hybrid+gqa(kv_heads=2)"), parse("gqa(kv_heads=2)+hybrid")
    assert first == second
    assert [choice.technique for choice in first.architecture] == ["gqa", "hybrid"]


def test_two_architectures_that_set_one_number_do_not_fit(make_plugin: MakePlugin) -> None:
    other = "plan.add(shape=replace(plan.shape, kv_heads=4))"
    registry.install([make_plugin(name="other", slot="architecture", apply=other)])
    with pytest.raises(UnfitError, match="'gqa' and 'other' both set kv_heads of the model"):
        plan("gqa(kv_heads=2)+other")


# For every rule a stack of plugins with its traits; the rest of the stack is the baseline.
SLOT_OF_TRAIT = {
    Trait.TREE: "decoding", Trait.BLOCKWISE: "decoding", Trait.BIDIRECTIONAL: "decoding",
    Trait.CHUNKS: "scheduling", Trait.PAGED: "cache", Trait.INCREMENTAL: "cache",
    Trait.RECURRENT: "architecture",
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: "-".join(sorted(rule.has | rule.lacks)))
def test_each_rule_refuses_its_stack_and_only_because_of_its_pair(
    make_plugin: MakePlugin, rule: Any
) -> None:
    slots: dict[str, set[str]] = {}
    for trait in rule.has:
        slots.setdefault(SLOT_OF_TRAIT[trait], set()).add(str(trait))
    if Trait.INCREMENTAL in rule.lacks:
        slots.setdefault("cache", set())  # instead of the contiguous cache, which has it
    refused = _stack_of(make_plugin, "x", slots)
    with pytest.raises(UnfitError) as caught:
        plan(refused)
    label = completed(parse(refused), find("tiny", ())).label
    assert str(caught.value) == f"stack '{label}': {rule.sentence}"
    assert "fits" in rule.sentence or "leave the cache at contiguous" in rule.sentence
    for missing in rule.lacks:
        slot = SLOT_OF_TRAIT.get(missing, "weights")
        fixed = slots | {slot: slots.get(slot, set()) | {str(missing)}}
        assert plan(_stack_of(make_plugin, f"with_{missing.name.lower()}", fixed))


def _stack_of(make_plugin: MakePlugin, prefix: str, slots: dict[str, set[str]]) -> str:
    """A stack of one plugin a slot, each with some traits."""
    for slot, traits in slots.items():
        apply = f"plan.add(*{sorted(traits)})"
        path = make_plugin(prefix, name=f"{prefix}_{slot}", slot=slot, apply=apply)
    registry.install([path])
    return "+".join(f"{prefix}_{slot}" for slot in slots)


def test_a_rules_pair_is_needed_in_full(make_plugin: MakePlugin) -> None:
    """A tree over attention, and a recurrence without a tree, are both fine."""
    make_plugin(name="tree", slot="decoding", apply="plan.add('tree', 'rejects')")
    both = "plan.add('recurrent', 'token-state')"
    registry.install([make_plugin(name="both", slot="architecture", apply=both)])
    assert plan("mha+tree")
    assert plan("both")
    with pytest.raises(UnfitError, match="a draft tree needs one state a branch"):
        plan("both+tree")


def test_heads_must_share_out() -> None:
    with pytest.raises(UnfitError, match=r"stack 'gqa\(kv_heads=3\)': .*take a divisor of 8"):
        plan("gqa(kv_heads=3)")


def test_a_shape_that_does_not_share_out_is_refused_whoever_made_it(
    make_plugin: MakePlugin,
) -> None:
    bad = "plan.add(shape=replace(plan.shape, kv_heads=5))"
    registry.install([make_plugin(slot="architecture", apply=bad)])
    with pytest.raises(UnfitError, match="8 query heads of 'made-up' cannot share 5"):
        plan("extra")


def test_trained_weights_are_not_contradicted() -> None:
    assert plan("mha", TRAINED).shape == SHAPE
    with pytest.raises(UnfitError) as caught:
        plan("gqa(kv_heads=2)", TRAINED)
    assert str(caught.value) == (
        "stack 'gqa(kv_heads=2)': it makes kv_heads 2, but the weights of 'made-up' were trained "
        "with 8; a stack that leaves it at 8 fits, and so does a model with random weights, such "
        "as tiny"
    )


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ("windows=(8,)*4", True), ("max_len=600", True), ("eps=1e-6", True), ("theta=5.0", True),
        ("vocab=7", False), ("width=8", False), ("layers=2", False), ("heads=16", False),
        ("head_dim=4", False), ("ff=0", False), ("tied=True", False), ("kv_share=2", False),
        ("mixers=('a:B',)*4", False), ("extra=(('rank', 4),)", False),
    ],
)  # fmt: skip
def test_only_what_tensors_depend_on_is_held_to_the_checkpoint(
    make_plugin: MakePlugin, change: str, fits: bool
) -> None:
    apply = f"plan.add(shape=replace(plan.shape, {change}))"
    registry.install([make_plugin(slot="architecture", apply=apply)])
    assert plan("extra")  # random weights take any shape
    if fits:
        assert plan("extra", TRAINED)
        return
    with pytest.raises(UnfitError, match=f"it makes {change.split('=')[0]} .* 'made-up'"):
        plan("extra", TRAINED)


def test_sequences_must_fit_the_models_places() -> None:
    assert plan("mha", max_tokens=512)
    with pytest.raises(UnfitError, match="need 513 places and 'made-up' has 512"):
        plan("mha", max_tokens=513)


@pytest.mark.parametrize(
    ("apply", "reason"),
    [
        ("1 / 0", "technique 'extra' failed in apply: ZeroDivisionError: division by zero"),
        ("None", "apply of 'extra' returned no EnginePlan"),
        ("_refuse()", "stack 'mha+extra': too small"),
    ],
)
def test_a_broken_apply_costs_its_own_stacks(
    make_plugin: MakePlugin, apply: str, reason: str
) -> None:
    path = make_plugin(apply=apply)
    file = path / "extra" / "__init__.py"
    file.write_text(f"{file.read_text()}\ndef _refuse():\n    raise UnfitError('too small')\n")
    parse("extra", [path])
    with pytest.raises(UnfitError) as caught:
        plan("extra")
    assert reason in str(caught.value)


@pytest.mark.parametrize("model", ["tiny", "llama-3-8b", "llama-2-13b", "llama-3.2-1b"])
@pytest.mark.parametrize("name", [n for n in registry.names() if n != "mha"])
def test_every_technique_resolves_on_every_preset(name: str, model: str) -> None:
    assert plan(name, find(model, ("mha",)))


def test_traits_are_the_vocabulary() -> None:
    """What built-in techniques add is known to the rules; a misspelt trait would switch one off."""
    for name in registry.names():
        assert plan(name, replace(RANDOM)).traits <= set(Trait)
        assert registry.get(name).slot in Slot


def test_a_stack_without_an_architecture_takes_the_models_own() -> None:
    """Multi-head attention was filled in, so that `contiguous` measured another Llama 3 8B."""
    assert completed(parse("contiguous"), find("llama-3-8b", ())).label == "gqa"
    assert completed(parse("recompute"), find("llama-2-13b", ())).label == "mha+recompute"
    named = parse({"name": "mine", "cache": "recompute"})
    assert completed(named, find("llama-3-8b", ())).label == "mine"
    plan = resolve(
        parse("contiguous"),
        find("llama-3-8b", ()),
        dtype="bfloat16",
        backend="torch",
        slots=1,
        max_tokens=8,
    )
    assert plan.shape == find("llama-3-8b", ()).shape
