"""The committed models: they load, transformers agrees, and the card tells the truth."""

import json
from pathlib import Path

import pytest
import torch

from harness.errors import UsageError
from harness.zoo import card, corpus, evaluate, export, network, readme, stream, table, tokenizer
from harness.zoo.__main__ import main

MODELS = Path(export.__file__).parent / "models"
# The bigram count model's held-out loss in nats a token: a model above it has learned no context.
BIGRAM_BAR = 3.884
MEMBERS = table.names()


@pytest.fixture(scope="module", params=MEMBERS)
def member(request: pytest.FixtureRequest) -> table.Entry:
    return table.get(request.param)


@pytest.fixture(scope="module")
def net(member: table.Entry) -> network.Network:
    return export.read(MODELS / member.name, member.architecture)


@pytest.fixture(scope="module")
def windows() -> torch.Tensor:
    return stream.held_out_windows(corpus.read(), tokenizer.load(), 256)[0]


def test_model_is_finished_and_well_below_the_bigram_bar(member: table.Entry) -> None:
    told = card.read(MODELS / member.name)
    assert told.finished
    assert told.held_out[0].loss < 3.1


def test_card_names_the_files_beside_it(member: table.Entry) -> None:
    folder = MODELS / member.name
    told = card.read(folder)
    assert told.weights_sha256 == card.file_sha256(folder / "model.safetensors")
    assert told.tokenizer_sha256 == card.file_sha256(folder / "tokenizer.json")
    assert told.tokenizer_sha256 == tokenizer.digest()
    assert told.corpus_sha256 == corpus.digest(corpus.read())
    assert (folder / "README.md").read_text(encoding="utf-8") == readme.render(told)


def test_card_tells_the_row_of_the_table(member: table.Entry, net: network.Network) -> None:
    told = card.read(MODELS / member.name)
    assert told.parameters == sum(weight.numel() for weight in net.parameters())
    assert told.tokens == told.steps * member.budget.step_tokens
    assert told.architecture == vars(member.architecture)
    assert told.budget == vars(member.budget)


def test_config_is_the_one_the_table_gives(member: table.Entry) -> None:
    text = (MODELS / member.name / "config.json").read_text(encoding="utf-8")
    assert json.loads(text) == export.config(member.architecture)


def test_held_out_loss_is_below_the_bigram_bar_and_as_the_card_says(
    member: table.Entry, net: network.Network, windows: torch.Tensor
) -> None:
    told = card.read(MODELS / member.name)
    some = evaluate.held_out(net, windows[::20]).loss
    assert some < BIGRAM_BAR
    # 15 of 283 windows; the standard deviation over windows is about 0.2, so 0.2 is 3.9 sigma.
    assert some == pytest.approx(told.held_out[0].loss, abs=0.2)
    assert told.bigram == pytest.approx(BIGRAM_BAR, abs=0.01)


def test_late_positions_are_no_worse_than_middle_ones(member: table.Entry) -> None:
    # Most steps saw windows of 256 tokens; the longer ones at the end must have been enough.
    long = card.read(MODELS / member.name).held_out[1].by_position
    assert long["512-1024"] < long["64-128"] + 0.1


def test_transformers_loads_the_folder_and_agrees(
    member: table.Entry, net: network.Network, windows: torch.Tensor
) -> None:
    from transformers import LlamaForCausalLM

    theirs, info = LlamaForCausalLM.from_pretrained(
        MODELS / member.name,
        local_files_only=True,
        output_loading_info=True,
        dtype=torch.float32,
        attn_implementation="eager",
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with torch.inference_mode():
        wanted = net(windows[:2, :-1])
        found = theirs(windows[:2, :-1]).logits
    assert (found - wanted).abs().max() <= 2e-5 * wanted.abs().max()


def test_transformers_tokenizer_gives_the_same_ids(member: table.Entry) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(MODELS / member.name, local_files_only=True)
    text = corpus.read()[0].held_out[:2000]
    ids = tokenizer.load().encode(text).ids
    assert theirs(text)["input_ids"] == ids
    assert theirs.decode(ids) == text
    assert (theirs.bos_token_id, theirs.eos_token_id) == (tokenizer.BOS_ID, tokenizer.EOS_ID)


def test_all_weights_stay_within_their_share() -> None:
    sizes = [path.stat().st_size for path in MODELS.rglob("*.safetensors")]
    assert sum(sizes) <= 60_000_000


def test_network_is_causal() -> None:
    net = network.build(table.get("small-gqa").architecture, seed=1)
    tokens = torch.arange(2, 34)[None]  # [1, T]
    changed = tokens.clone()
    changed[0, 20:] = 7
    with torch.inference_mode():
        before, after = net(tokens)[0], net(changed)[0]
    assert torch.equal(before[:20], after[:20])
    assert not torch.equal(before[20:], after[20:])


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    export.write(tmp_path, network.build(table.get("small-gqa").architecture, seed=0))
    with pytest.raises(UsageError, match=r"tensor 'model\.layers\.0\.self_attn\.k_proj\.weight'"):
        export.read(tmp_path, table.get("small-mha").architecture)


def test_broken_and_missing_weights_are_refused(tmp_path: Path) -> None:
    architecture = table.get("small-gqa").architecture
    with pytest.raises(UsageError, match="no weights at"):
        export.read(tmp_path, architecture)
    (tmp_path / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(UsageError, match="cannot be read"):
        export.read(tmp_path, architecture)


def test_mixer_without_a_huggingface_class_is_not_exported() -> None:
    architecture = table.Architecture(layers=2, heads=8, kv_heads=8, mixers=("mamba",))
    with pytest.raises(UsageError, match="mamba"):
        export.config(architecture)


def test_unknown_model_gets_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "small-gqq"]) == 2
    assert capsys.readouterr().err == (
        "harness.zoo: unknown zoo model 'small-gqq'; did you mean 'small-gqa'?\n"
    )
