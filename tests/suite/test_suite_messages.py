"""Whatever is wrong with a suite is one sentence: the file, the line, and what would do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UnfitError, UsageError
from harness.suite import Suite, cases, load, override

LoadText = Callable[..., Suite]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # keys
        ("baseline", "basline", "line 4: unknown key 'basline'; did you mean 'baseline'?"),
        ("kind: generate, batch", "kind: generate, bach",
         "line 5: unknown key 'bach' in workload; did you mean 'batch'? (and 1 more)"),
        ("{rounds: 2}", "{round: 2}",
         "line 7: unknown key 'round' in measure; did you mean 'rounds'?"),
        ("cpu: {model", "gpu: {model",
         "line 10: unknown key 'gpu' in profiles; did you mean 'cpu'?"),
        ("cuda: {model", "cuda: {modle", "line 11: unknown key 'modle'; did you mean 'model'?"),
        ("cuda: {model", "cuda: {suite: x, model", "line 11: a profile cannot change 'suite'"),
        ("{batch: [64]}", "{bach: [64]}",
         "line 11: unknown key 'bach' in workload; did you mean 'batch'?"),
        ("exclude: [{stack", "exclude: [{stak",
         "line 12: unknown key 'stak' in exclude[0]; did you mean 'stack'?"),
        ("suite: small\n", "", "small.yaml: the key 'suite' is missing"),
        ("workload: {kind: generate, ", "workload: {",
         "line 5: the key 'workload.kind' is missing"),
        # values
        ("suite: small", "suite: 12",
         "line 1: suite must be text (numbers and words like true need quotes) (got 12)"),
        ("suite: small", "suite: A b", "line 1: suite must match"),
        ("kind: generate", "kind: surf",
         "line 5: workload.kind must be one of 'generate', 'serve', 'quality', 'kernel' (got"),
        ("batch: [1, 8]", "batch: [1, 0]", "line 5: workload.batch must be greater than 0 (got 0)"),
        ("batch: [1, 8]", "batch: 70000",
         "line 5: workload.batch must be at most 65536 (got 70000)"),
        ("batch: [1, 8]", "batch: [1, '8']",
         "line 5: workload.batch must be a whole number (got '8')"),
        ("batch: [1, 8]", "batch: [1, 8.0]",
         "line 5: workload.batch must be a whole number (got 8.0)"),
        ("batch: [1, 8]", "batch: true",
         "line 5: workload.batch must be a whole number (got true)"),
        ("batch: [1, 8]", "batch: [1, [8]]",
         "line 5: workload.batch must be a whole number (got [8])"),
        ("batch: [1, 8]", "batch: []", "line 5: workload.batch must not be empty"),
        ("batch: [1, 8]", "batch: [8, 1, 8]", "line 5: workload.batch lists 8 twice"),
        ("batch: [1, 8]", f"batch: {list(range(1, 300))}",
         "line 5: workload.batch lists 299 values; an axis has at most 256"),
        ("dtype: float32", "dtype: fp32", "line 6: dtype must be 'float64', 'float32',"),
        ("{rounds: 2}", "{rounds: 2.5}", "line 7: measure.rounds must be a whole number (got 2.5)"),
        ("{rounds: 2}", "{rounds: 1000000}", "line 7: measure.rounds must be at most 1000"),
        ("{rounds: 2}", "{precision: 1}", "line 7: measure.precision must be less than 1 (got 1)"),
        ("{rounds: 2}", "{cuda_graph: 1}", "line 7: measure.cuda_graph must be true or false"),
        ("{rounds: 2}", "3", "line 7: measure must be a mapping of keys to values (got 3)"),
        ("{rounds: 2}", "{max_seconds: 400}",
         "line 7: measure kills a run after 300 s that may measure for 400 s"),
        ("slo: chat", "slo: chatt",
         "line 8: slo names the unknown preset 'chatt'; did you mean 'chat'?"),
        ("slo: chat", "slo: {ttft_ms: 0}", "line 8: slo.ttft_ms must be greater than 0 (got 0)"),
        ("slo: chat", "slo: [chat]", "line 8: slo must be a mapping of keys to values"),
        ("exclude: [{", "exclude: [{}, {", "line 12: exclude[0] must name at least one of stack,"),
        ("exclude: [{", "exclude: {", "is not YAML"),
        ("exclude: [{stack: gqa, batch: 8}]", "exclude: {stack: gqa}",
         "line 12: exclude must be a list"),
        ("profiles:\n  cpu: {model: tiny}\n", "profiles:\n  cpu: tiny\n",
         "line 10: profiles.cpu must be a mapping of keys to values (got 'tiny')"),
        # stacks
        ("[mha, gqa", "[mha, gqaa", "line 3: unknown technique 'gqaa'; did you mean 'gqa'?"),
        ("[mha, gqa", "[mha, 3", "line 3: stacks[1] must name techniques"),
        ("[mha, gqa", "[mha, '', gqa", "line 3: stacks[1] must name techniques"),
        ("[mha, gqa", "[mha, mha+static, gqa", "line 3: the stack 'mha' stands in the list twice"),
        ("{kv_heads: 2}", "{kv_head: 2}",
         "line 3: technique 'gqa': unknown option 'kv_head'; did you mean 'kv_heads'?"),
        ("{kv_heads: 2}", "{kv_heads: -2}",
         "line 3: technique 'gqa': kv_heads must be greater than 0 (got -2)"),
        ("name: chat", "name: gqa", "line 3: the stack 'gqa' stands in the list twice"),
        ("{gqa: {kv_heads: 2}}", "{gqa: {}}", "line 3: the stack 'chat' stands in the list twice "
         "(the other is 'gqa')"),
        ("baseline: mha", "baseline: mhb", "line 4: unknown technique 'mhb'; did you mean"),
        ("baseline: mha", "baseline: mha+recompute",
         "line 4: the baseline 'mha+recompute' is not among the stacks (mha, gqa, chat); add it"),
        ("exclude: [{stack: gqa", "exclude: [{stack: gqq", "line 12: unknown technique 'gqq'"),
        ("include: [{stack: gqa", "include: [{stack: gqq", "line 13: unknown technique 'gqq'"),
    ],
)  # fmt: skip
def test_message(load_text: LoadText, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_text(old, new)
    assert message in str(caught.value)
    assert "small.yaml" in str(caught.value)
    assert str(caught.value).isprintable(), "one line, and no control characters"


def test_a_grid_that_is_too_large_is_refused_before_it_is_multiplied(load_text: LoadText) -> None:
    numbers = str(list(range(1, 257)))
    with pytest.raises(UsageError, match="line 5: the grid has 393,218 points, more than 100,000"):
        load_text("batch: [1, 8]", f"batch: {numbers}", "prompt_tokens: [16, 32]",
                  f"prompt_tokens: {numbers}", "new_tokens: 4", "new_tokens: [4, 5]")  # fmt: skip


def test_an_empty_grid_is_an_error(load_text: LoadText) -> None:
    suite = load_text("exclude: [{stack: gqa, batch: 8}]", "exclude: [{new_tokens: 4}]",
                      "include: [{stack: gqa, batch: 2, prompt_tokens: 16}]", "")  # fmt: skip
    with pytest.raises(UsageError, match="line 12: exclude takes out all 12 points of the grid"):
        cases(suite, "cpu")


def test_a_model_is_named_somewhere(load_text: LoadText) -> None:
    suite = load_text("cpu: {model: tiny}", "cpu: {threads: 1}")
    with pytest.raises(UsageError, match=r"small\.yaml names no model for the profile cpu; add"):
        cases(suite, "cpu")
    assert cases(suite, "cuda")


def test_an_unknown_model_has_its_line(load_text: LoadText) -> None:
    suite = load_text("model: tiny", "model: tinny")
    with pytest.raises(UsageError, match="line 10: unknown model 'tinny'; did you mean 'tiny'"):
        cases(suite, "cpu")


def test_no_case_that_can_run_is_an_error_with_the_first_reason(load_text: LoadText) -> None:
    suite = load_text("new_tokens: 4", "new_tokens: 5000")
    with pytest.raises(UnfitError, match=r"no case can run; stack 'mha': .* 5016 places"):
        cases(suite, "cpu")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.yaml", "unknown suite file '.*missing.yaml'"),
        ("smal.yaml", "unknown suite file '.*smal.yaml'; did you mean '.*small.yaml'"),
        ("x" * 5000, "xxx.* cannot be read: File name too long"),
        ("a\0b.yaml", r"unknown suite file '.*a\\x00b.yaml'"),
        ("folder", "the suite '.*folder' is a folder; name a file in it"),
        ("latin.yaml", "latin.yaml, line 2: the text is not UTF-8"),
    ],
)
def test_files(tmp_path: Path, text: str, path: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "small.yaml").write_text(text)
    (tmp_path / "latin.yaml").write_bytes("suite: x\nabout: Zürich".encode("latin-1"))
    with pytest.raises(UsageError, match=message):
        load(tmp_path / path)


def test_a_byte_order_mark_is_no_key(tmp_path: Path, text: str) -> None:
    file = tmp_path / "marked.yaml"
    file.write_text(text, encoding="utf-8-sig")
    assert load(file).suite == "small"


def test_a_shipped_suite_loads_by_name() -> None:
    assert load("decode").suite == "decode"
    with pytest.raises(UsageError, match="unknown suite file 'decod'; did you mean 'decode'"):
        load("decod")


@pytest.mark.parametrize(
    "model", ["x" * 5000, "~nobody-of-that-name/x", "a\nb/c", "", "/etc/hosts"]
)
def test_whatever_is_given_as_a_model_is_one_sentence(load_text: LoadText, model: str) -> None:
    """A name too long for the file system raised OSError, an unknown home RuntimeError."""
    suite = override(load_text(), [f"model={json.dumps(model)}"])
    with pytest.raises(UsageError) as caught:
        cases(suite, "cpu")
    assert str(caught.value).isprintable()
