"""`--set key=value`: what it reads, that it wins over profiles, and how it says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.errors import UsageError
from harness.suite import Suite, override, with_profile
from harness.suite.workloads import GenerateWorkload

LoadText = Callable[..., Suite]


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("workload.batch=1", "workload.batch", (1,)),
        ("workload.batch=1,2, 3", "workload.batch", (1, 2, 3)),
        ("workload.batch=[4, 5]", "workload.batch", (4, 5)),
        ("measure.max_seconds=1.5", "measure.max_seconds", 1.5),
        ("measure.max_seconds=2", "measure.max_seconds", 2.0),
        ("gate.numeric=false", "gate.numeric", False),
        ("about=", "about", ""),
        ("about='a, b'", "about", "a, b"),
        ("slo=completion", "slo.ttft_ms", 100.0),
        ('slo={"ttft_ms": 5}', "slo.ttft_ms", 5.0),
        ("stacks=mha", "stacks", ("mha",)),
        ("stacks=gqa(kv_heads=2),mha", "stacks", ("gqa(kv_heads=2)", "mha")),
        ("baseline=gqa", "baseline", "gqa"),
        ("threads=1,2", "threads", (1, 2)),
        (" threads = 2 ", "threads", (2,)),
        ("exclude=[{batch: 8}]", "exclude", None),
    ],
)
def test_values(load_text: LoadText, setting: str, key: str, value: Any) -> None:
    if setting == "about=":
        setting = "about=''"
    changed: Any = override(load_text(), [setting])
    for part in key.split("."):
        changed = getattr(changed, part)
    if value is None:
        assert changed[0].batch == (8,)
    else:
        assert changed == value
        assert type(changed) is type(value)


def test_a_setting_wins_over_every_profile(load_text: LoadText) -> None:
    suite = override(load_text(), ["workload.batch=3", "dtype=float16", "model=tiny"])
    for profile in ("cpu", "cuda"):
        laid = with_profile(suite, profile)
        assert isinstance(laid.workload, GenerateWorkload)
        assert (laid.workload.batch, laid.dtype, laid.model) == ((3,), ("float16",), ("tiny",))
        assert laid.workload.prompt_tokens == (16, 32)


def test_a_setting_wins_over_a_profile_that_replaces_the_whole(load_text: LoadText) -> None:
    suite = load_text("cpu: {model: tiny}", "cpu: {model: tiny, slo: completion}",
                      "slo: chat", "slo: {ttft_ms: 7}")  # fmt: skip
    slo = with_profile(override(suite, ["slo.tpot_ms=9"]), "cpu").slo
    assert slo is not None
    assert (slo.ttft_ms, slo.tpot_ms) == (7.0, 9.0)


def test_a_profile_can_be_set(load_text: LoadText) -> None:
    suite = override(load_text(), ["profiles.cpu.threads=2"])
    assert with_profile(suite, "cpu").threads == (2,)
    assert with_profile(suite, "cuda").threads == (1,)


def test_the_suite_itself_stays_as_it_was(load_text: LoadText) -> None:
    suite = load_text()
    before = suite.hash
    changed = override(suite, ["workload.batch=3"])
    assert suite.hash == before != changed.hash
    assert changed.text == suite.text
    assert suite.document.values["workload"]["batch"] == [1, 8]


def test_later_settings_win(load_text: LoadText) -> None:
    assert override(load_text(), ["threads=2", "threads=3"]).threads == (3,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("workload.batch", "--set workload.batch: write it as key=value"),
        ("=3", "--set =3: write it as key=value"),
        ("a..b=3", "--set a..b=3: write it as key=value"),
        ("workload.bach=3", "--set workload.bach=3: unknown key 'bach' in workload; did you mean"),
        ("thread=3", "--set thread=3: unknown key 'thread'; did you mean 'threads'?"),
        ("workload.batch=x", "--set workload.batch=x: workload.batch must be a whole number"),
        ("workload.batch=0,1", "--set workload.batch=0,1: workload.batch must be greater than 0"),
        ("workload.batch=1,", "--set workload.batch=1,: a value is missing beside a comma"),
        ("workload.batch=[1", "is not YAML"),
        ("workload.batch=99999999999999999999", "has more than 15 digits"),
        ("stacks=gqa(", "--set stacks=gqa( misses a closing ')'"),
        ("suite.name=x", "--set suite.name=x: 'suite' has no keys of its own"),
        ("exclude.0.batch=1", "--set exclude.0.batch=1: 'exclude' has no keys of its own"),
        ("slo=quick", "--set slo=quick: slo names the unknown preset 'quick'"),
        ("a\nb=1", "--set a\\nb=1: unknown key"),
    ],
)
def test_what_is_wrong_with_a_setting(load_text: LoadText, setting: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        override(load_text(), [setting])
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_fault_that_a_setting_brings_in_under_a_profile_names_the_setting(
    load_text: LoadText,
) -> None:
    suite = load_text()
    with pytest.raises(UsageError, match=r"--set profiles\.cpu\.threads=0: threads must be"):
        with_profile(override(suite, ["profiles.cpu.threads=0"]), "cpu")
