"""The committed models: they load, transformers agrees, and the card tells the truth."""

import json
from pathlib import Path

import pytest
import torch

from harness.errors import UsageError
from harness.zoo import (
    card,
    corpus,
    evaluate,
    export,
    listing,
    network,
    readme,
    rows,
    stream,
    table,
    tokenizer,
)
from harness.zoo.__main__ import main

MODELS = export.MODELS
# The bigram count model's held-out loss in nats a token: a model above it has learned no context.
BIGRAM_BAR = 3.884
# What a small model reaches at the least on 256-token windows, by the start of its name.
BARS = {"small": 3.1, "target": 2.95, "draft": 3.1, "equal": 3.7}
TEXT = [entry.name for entry in rows.TABLE if entry.task is None]
TASKS = [entry.name for entry in rows.TABLE if entry.task is not None]
LLAMA = [e.name for e in rows.TABLE if e.architecture.checkpoint_class == table.LLAMA]


def bar(name: str) -> float:
    return next(value for start, value in BARS.items() if name.startswith(start))


def load(name: str) -> network.Network:
    return export.read(MODELS / name, rows.get(name).architecture)


@pytest.fixture(scope="module")
def novels() -> list[corpus.Novel]:
    return corpus.read()


@pytest.fixture(scope="module")
def windows(novels: list[corpus.Novel]) -> torch.Tensor:
    return stream.held_out_windows(novels, tokenizer.load(), 256)[0]


@pytest.mark.parametrize("name", rows.names())
def test_card_names_the_files_beside_it_and_tells_the_row_of_the_table(name: str) -> None:
    folder, entry = MODELS / name, rows.get(name)
    told = card.read_any(folder)
    assert told.finished
    assert told.model == name
    assert told.summary == entry.summary
    assert told.storage == entry.storage
    assert told.architecture == vars(entry.architecture)
    assert told.budget == vars(entry.budget)
    assert told.tokens == told.steps * entry.budget.step_tokens
    assert told.weights_sha256 == card.file_sha256(folder / "model.safetensors")
    assert told.parameters == sum(weight.numel() for weight in load(name).parameters())
    assert (folder / "README.md").read_text(encoding="utf-8") == readme.render(told)


@pytest.mark.parametrize("name", TEXT)
def test_card_of_text_tells_corpus_tokenizer_and_a_loss_below_the_bar(
    name: str, novels: list[corpus.Novel]
) -> None:
    told, entry = card.read(MODELS / name), rows.get(name)
    assert told.tokenizer_sha256 == card.file_sha256(MODELS / name / "tokenizer.json")
    assert told.tokenizer_sha256 == tokenizer.digest()
    assert told.corpus_sha256 == corpus.digest(novels)
    assert told.bigram == pytest.approx(BIGRAM_BAR, abs=0.01)
    assert told.held_out[0].window == 256
    assert told.held_out[0].loss < bar(name)
    assert (told.start, told.teacher) == (
        entry.start.model if entry.start else None,
        entry.teacher.model if entry.teacher else None,
    )


@pytest.mark.parametrize("name", rows.names())
def test_config_is_the_one_the_table_gives(name: str) -> None:
    entry = rows.get(name)
    text = (MODELS / name / "config.json").read_text(encoding="utf-8")
    wanted = export.config(entry.architecture, entry.storage, text=entry.task is None)
    assert json.loads(text) == wanted


@pytest.mark.parametrize("name", TEXT)
def test_held_out_loss_is_as_the_card_says(name: str, windows: torch.Tensor) -> None:
    told = card.read(MODELS / name).held_out[0].loss
    some = evaluate.held_out(load(name), windows[::40]).loss
    # 8 of 283 windows; the standard deviation over windows is about 0.2, so 0.28 is 4 sigma.
    assert some == pytest.approx(told, abs=0.28)


@pytest.mark.parametrize("name", ["small-mha", "small-gqa", "target"])
def test_late_positions_are_no_worse_than_middle_ones(name: str) -> None:
    # Most steps saw shorter windows; the long ones at the end must have been enough.
    long = card.read(MODELS / name).held_out[-1]
    assert long.window == 1024
    assert long.by_position["512-1024"] < long.by_position["64-128"] + 0.1


@pytest.mark.parametrize("name", LLAMA)
def test_transformers_loads_the_folder_and_agrees(name: str, windows: torch.Tensor) -> None:
    from transformers import LlamaForCausalLM

    theirs, info = LlamaForCausalLM.from_pretrained(
        MODELS / name,
        local_files_only=True,
        output_loading_info=True,
        dtype=torch.float32,
        attn_implementation="eager",
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    tokens = windows[:1, :-1] % rows.get(name).architecture.vocab
    with torch.inference_mode():
        wanted = load(name)(tokens)
        found = theirs(tokens).logits
    assert (found - wanted).abs().max() <= 2e-5 * wanted.abs().max()


@pytest.mark.parametrize("name", ["small-mha", "target"])
def test_transformers_tokenizer_gives_the_same_ids(name: str, novels: list[corpus.Novel]) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(MODELS / name, local_files_only=True)
    text = novels[0].held_out[:2000]
    ids = tokenizer.load().encode(text).ids
    assert theirs(text)["input_ids"] == ids
    assert theirs.decode(ids) == text
    assert (theirs.bos_token_id, theirs.eos_token_id) == (tokenizer.BOS_ID, tokenizer.EOS_ID)


def test_all_weights_stay_within_their_share() -> None:
    sizes = [path.stat().st_size for path in MODELS.rglob("*.safetensors")]
    seconds, by_cpu, weights = listing.cost()
    assert sum(sizes) == weights <= listing.BYTES == 60_000_000
    assert seconds == pytest.approx(sum(by_cpu.values()))
    assert 0 < seconds <= listing.CPU_HOURS * 3600 == 14_400


def test_network_is_causal() -> None:
    net = network.build(rows.get("small-gqa").architecture, seed=1)
    tokens = torch.arange(2, 34)[None]  # [1, T]
    changed = tokens.clone()
    changed[0, 20:] = 7
    with torch.inference_mode():
        before, after = net(tokens)[0], net(changed)[0]
    assert torch.equal(before[:20], after[:20])
    assert not torch.equal(before[20:], after[20:])


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    export.write(tmp_path, network.build(rows.get("small-gqa").architecture, seed=0))
    with pytest.raises(UsageError, match=r"tensor 'model\.layers\.0\.self_attn\.k_proj\.weight'"):
        export.read(tmp_path, rows.get("small-mha").architecture)


def test_broken_and_missing_weights_are_refused(tmp_path: Path) -> None:
    architecture = rows.get("small-gqa").architecture
    with pytest.raises(UsageError, match="no weights at"):
        export.read(tmp_path, architecture)
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(UsageError, match="cannot be read"):
        export.read(tmp_path, architecture)


def test_layers_that_the_engine_does_not_have_are_not_exported() -> None:
    architecture = table.Architecture(layers=2, heads=8, kv_heads=8, mixers=("mamba",))
    with pytest.raises(UsageError, match="mamba"):
        export.config(architecture)


def test_unknown_model_gets_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "small-gqq"]) == 2
    assert capsys.readouterr().err == (
        "harness.zoo: unknown zoo model 'small-gqq'; did you mean 'small-gqa'?\n"
    )
