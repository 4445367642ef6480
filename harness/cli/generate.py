"""`harness generate`: text from a prompt, through the same engine that sweeps measure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.listing import PluginPaths
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.engine.request import Request
    from harness.model.source import ModelSource

# What an unfinished UTF-8 sequence decodes to: its last bytes are in tokens still to come.
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def generate(
        stack: Annotated[str, typer.Argument(help="Techniques: 'gqa', 'mha+recompute'.")],
        prompt: Annotated[str, typer.Argument(help="The text to continue.")],
        model: Annotated[str, typer.Option(help="A trained model.")] = "zoo/small",
        new_tokens: Annotated[int, typer.Option(min=1, help="Tokens to add at most.")] = 64,
        temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest.")] = 0.0,
        top_k: Annotated[int, typer.Option(min=0, help="Only the k likeliest; 0 is off.")] = 0,
        top_p: Annotated[
            float, typer.Option(min=0, max=1, help="The likeliest of this mass; 1 is off.")
        ] = 1.0,
        seed: Annotated[int, typer.Option(min=0, help="Of the noise.")] = 0,
        backend: Annotated[
            Literal["torch", "triton"], typer.Option(help="Whose kernels run.")
        ] = "torch",
        dtype: Annotated[
            Literal["float64", "float32", "float16", "bfloat16"], typer.Option(help="Numbers.")
        ] = "float32",
        # The bound is that of suites: beyond it a system may run out of processes.
        threads: Annotated[int, typer.Option(min=1, max=1024, help="CPU threads.")] = 1,
        plugin_path: PluginPaths = None,
    ) -> None:
        """Continue a prompt and print the text as it comes. It ends where the model ends it."""
        import torch

        from harness import stack as stacks
        from harness.engine.build import build
        from harness.engine.request import Request, Sampling
        from harness.hardware.detection import detect
        from harness.model import source as models

        spec = stacks.parse(stack, plugin_path or [])
        source = models.find(model, spec.member_names)
        tokenizer = _tokenizer(source)
        request = Request(
            id=0,
            prompt=tuple(tokenizer.encode(prompt).ids),
            max_new_tokens=new_tokens,
            sampling=Sampling(temperature, top_k, top_p, seed),
            eos=source.eos,
        )
        _check_length(request, source)
        length = len(request.prompt) + new_tokens
        plan = stacks.resolve(
            spec, source, dtype=dtype, backend=backend, slots=1, max_tokens=length
        )
        device = detect().kind
        if backend == "triton" and device == "cpu":
            raise UsageError("--backend triton needs a GPU, and there is none; use torch")
        torch.set_num_threads(threads)
        engine = build(plan, source, device=device, seed=seed)
        typer.echo(prompt, nl=False)
        for text in pieces(tokenizer, _emitted(engine, request)):
            typer.echo(text, nl=False)
        typer.echo()


def pieces(tokenizer: Any, emissions: Iterator[tuple[int, ...]]) -> Iterator[str]:
    """The text of tokens as it becomes certain; a character cut between tokens waits for its end.

    Args:
        tokenizer: of the `tokenizers` library.
        emissions: tokens as they come.
    """
    tokens: list[int] = []
    told = ""
    for emission in emissions:
        tokens += emission
        text = tokenizer.decode(tokens)
        if not text.endswith(_UNFINISHED):
            yield text[len(told) :]
            told = text
    yield tokenizer.decode(tokens)[len(told) :]


def _emitted(engine: Any, request: Request) -> Iterator[tuple[int, ...]]:
    """New tokens a step, without the end of sequence."""
    import torch

    engine.submit(request)
    with torch.inference_mode():
        while engine.has_work:
            for emission in engine.step():
                yield tuple(token for token in emission.token_ids if token != request.eos)


def _tokenizer(source: ModelSource) -> Any:
    """The model's tokenizer; UsageError where it has none, or none that can be read."""
    from harness.model import tokenizer

    if source.tokenizer is None:
        raise UsageError(
            f"model '{source.name}' has no tokenizer, so it has no text; "
            "take a trained one of 'harness list models', or a folder with a tokenizer.json"
        )
    return tokenizer.load(source.tokenizer, source.shape.vocab)


def _check_length(request: Request, source: ModelSource) -> None:
    if not request.prompt:
        raise UsageError("the prompt is empty; give at least one character to continue")
    longest = source.shape.max_len
    if len(request.prompt) + request.max_new_tokens > longest:
        raise UsageError(
            f"the prompt has {len(request.prompt)} tokens, and {request.max_new_tokens} more are "
            f"asked for; {source.name} holds {longest} in all, so lower --new-tokens"
        )
