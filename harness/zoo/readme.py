"""A model card as people read it: Markdown, rendered from the record of `card.py`."""

from collections.abc import Sequence

from harness.zoo.card import Card


def render(card: Card) -> str:
    """The README of a model's folder."""
    by_position = "\n\n".join(
        table(
            ("window", *losses.by_position),
            [(f"{losses.window}", *(f"{value:.3f}" for value in losses.by_position.values()))],
        )
        for losses in card.held_out
    )
    curve = table(
        ("step", "train", "held out"),
        [(f"{p.step}", f"{p.train_loss:.4f}", f"{p.held_out_loss:.4f}") for p in card.curve],
    )
    hashes = table(
        ("SHA-256 of", "value"),
        [
            ("corpus", f"`{card.corpus_sha256}`"),
            ("tokenizer.json", f"`{card.tokenizer_sha256}`"),
            ("model.safetensors", f"`{card.weights_sha256}`"),
        ],
    )
    return f"""# zoo/{card.model}
{_mark(card)}
Llama-shaped, {card.summary}.
Trained from scratch by `python -m harness.zoo train {card.model}`. The models of its family share
tokenizer, corpus, order of the data, steps and learning rate; the number of parameters is each
architecture's own.

{table(("what", "value"), _figures(card))}

Held-out loss by position of the predicting token, nats a token:

{by_position}

The curve (held-out loss on a part of the windows; the training loss is a mean over the steps since
the line before):

{curve}

{hashes}

Good for tests of mechanism, order and exactness. It has seen one author's prose under one seed, so
its {card.held_out[0].loss:.2f} nats say nothing of language quality at large.
"""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    body = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in body)


def _mark(card: Card) -> str:
    if card.finished:
        return ""
    steps = f"{card.steps} of {card.budget['steps']} steps"
    return f"\n**Snapshot after {steps}: not the finished model.**\n"


def _figures(card: Card) -> list[tuple[str, str]]:
    shape, budget = card.architecture, card.budget
    return [
        ("parameters", f"{card.parameters:,} (float32, tied embeddings)"),
        (
            "shape",
            f"L {shape['layers']}, D {shape['width']}, F {shape['ff']}, N {shape['heads']}, "
            f"K {shape['kv_heads']}, H {shape['head_dim']}, V {shape['vocab']}",
        ),
        ("positions", f"rotary, theta {shape['theta']:g}, at most {shape['max_len']}"),
        (
            "trained on",
            f"{card.tokens:,} tokens in {card.steps:,} steps ({card.epochs:.1f} epochs) of "
            f"{budget['step_tokens']} tokens",
        ),
        (
            "windows",
            f"{budget['short']} tokens, in the last {budget['long_share']:.0%} of the steps "
            f"{budget['long']}",
        ),
        (
            "optimizer",
            f"AdamW, learning rate {budget['learning_rate']:g} after {budget['warmup']} steps, "
            f"then linear to 0; weight decay {budget['decay']:g}; {budget['precision']}; "
            f"seed {budget['seed']}",
        ),
        ("cost", f"{card.cpu_seconds:.0f} CPU-seconds, {card.cpu}, torch {card.torch}"),
        ("train loss", f"{card.train_loss:.4f} nats a token (mean of the last steps)"),
        *(
            (
                f"held-out loss, {losses.window}-token windows",
                f"{losses.loss:.4f} nats a token, {losses.bits_per_byte:.4f} bits a byte",
            )
            for losses in card.held_out
        ),
        ("bars", f"unigram {card.unigram:.4f}, bigram {card.bigram:.4f} nats a token"),
        ("licence", card.licence),
    ]
