"""A model card as people read it: Markdown, rendered from the record of `card.py`."""

from collections.abc import Sequence

from harness.zoo.card import Card, Made, TaskCard

# What the members of a family have in common.
SHARED = """The models of its family share
tokenizer, corpus, order of the data, steps and learning rate; the number of parameters is each
architecture's own."""


def render(card: Card | TaskCard) -> str:
    """The README of a model's folder."""
    return _of_text(card) if isinstance(card, Card) else _of_task(card)


def _of_text(card: Card) -> str:
    by_position = "\n\n".join(
        table(
            ("window", *losses.by_position),
            [(f"{losses.window}", *(f"{value:.3f}" for value in losses.by_position.values()))],
        )
        for losses in card.held_out
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
{_origin(card)}

{table(("what", "value"), _figures(card))}
{_pair(card)}
Held-out loss by position of the predicting token, nats a token:

{by_position}
{_by_context(card)}
The curve (held-out loss on a part of the windows; the training loss is a mean over the steps since
the line before):

{_curve(card)}

{hashes}

Good for tests of mechanism, order and exactness. It has seen one author's prose under one seed, so
its {card.held_out[0].loss:.2f} nats say nothing of language quality at large.
"""


def _of_task(card: TaskCard) -> str:
    task = ", ".join(f"{name} {value}" for name, value in card.task.items())
    right = table(
        ("asked", "right"), [(what, f"{share:.4f}") for what, share in card.accuracy.items()]
    )
    return f"""# zoo/{card.model}
{_mark(card)}
A model of a synthetic task (`harness/zoo/tasks.py`), {card.summary}.
Trained from scratch by `python -m harness.zoo train {card.model}` on fresh questions each step.

{table(("what", "value"), [("task", task), *_made(card), ("licence", card.licence)])}

Held-out questions answered right (guessing: {card.chance:.4f}):

{right}

The curve, on held-out questions:

{_curve(card)}

SHA-256 of model.safetensors: `{card.weights_sha256}`
"""


def _curve(card: Made) -> str:
    head = ("step", "train", "held out")
    lines = [(f"{p.step}", f"{p.train_loss:.4f}", f"{p.held_out_loss:.4f}") for p in card.curve]
    if not isinstance(card, TaskCard):
        return table(head, lines)
    shares = [f"{p.accuracy:.4f}" for p in card.curve if p.accuracy is not None]
    told = [(*line, share) for line, share in zip(lines, shares, strict=True)]
    return table((*head, "right"), told)


def _origin(card: Card) -> str:
    command = f"`python -m harness.zoo train {card.model}`"
    if card.start is not None:
        return f"Trained by {command}, beginning with layers of zoo/{card.start}."
    return f"Trained from scratch by {command}. " + SHARED


def _by_context(card: Card) -> str:
    if card.by_context is None:
        return ""
    head = ("tokens before", *card.by_context)
    row = ("loss", *(f"{value:.3f}" for value in card.by_context.values()))
    return f"""
Held-out loss of the same tokens by how many tokens the model is told before them:

{table(head, [row])}
"""


def _pair(card: Card) -> str:
    if card.pair is None:
        return ""
    told = card.pair
    rows = [
        ("acceptance, sum of min(p, q)", f"{told.acceptance:.4f}"),
        ("greedy agreement", f"{told.agreement:.4f}"),
        ("loss of target, draft", f"{told.target_loss:.4f}, {told.draft_loss:.4f} nats a token"),
        ("gap", f"{told.gap:.4f} nats a token"),
        ("entropy of target, draft", f"{told.target_entropy:.4f}, {told.draft_entropy:.4f} nats"),
        ("KL(target, draft)", f"{told.divergence:.4f} nats a token"),
    ]
    return f"""
Beside zoo/{told.target}, teacher-forced on {told.windows} held-out windows. An acceptance is only
worth as much as the losses below it: two untrained models agree best of all.

{table(("what", "value"), rows)}
"""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    body = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in body)


def _mark(card: Made) -> str:
    if card.finished:
        return ""
    steps = f"{card.steps} of {card.budget['steps']} steps"
    return f"\n**Snapshot after {steps}: not the finished model.**\n"


def _made(card: Made) -> list[tuple[str, str]]:
    shape, budget = card.architecture, card.budget
    epochs = f" ({card.epochs:.1f} epochs)" if isinstance(card, Card) else ""
    return [
        ("parameters", f"{card.parameters:,} ({card.storage}, tied embeddings)"),
        (
            "shape",
            f"L {shape['layers']}, D {shape['width']}, F {shape['ff']}, N {shape['heads']}, "
            f"K {shape['kv_heads']}, H {shape['head_dim']}, V {shape['vocab']}",
        ),
        ("positions", f"rotary, theta {shape['theta']:g}, at most {shape['max_len']}"),
        (
            "initial weights",
            f"normal, standard deviation {budget['initial_std']:g}; into the stream divided by "
            "sqrt(2 L)",
        ),
        (
            "trained on",
            f"{card.tokens:,} tokens in {card.steps:,} steps{epochs} of "
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
    ]


def _figures(card: Card) -> list[tuple[str, str]]:
    figures = _made(card)
    if card.teacher is not None:
        loss = f"{card.kl_weight:g} x KL(zoo/{card.teacher}, model) + the rest x cross entropy"
        figures.append(("loss trained on", loss))
    figures += [
        (
            f"held-out loss, {losses.window}-token windows",
            f"{losses.loss:.4f} nats a token, {losses.bits_per_byte:.4f} bits a byte",
        )
        for losses in card.held_out
    ]
    if card.rounding is not None:
        what = f"{card.rounding:+.6f} nats a token of held-out loss"
        figures.append((f"cost of {card.storage}", what))
    bars = f"unigram {card.unigram:.4f}, bigram {card.bigram:.4f} nats a token"
    return [*figures, ("bars", bars), ("licence", card.licence)]
