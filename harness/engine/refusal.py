"""What no engine of a given size can serve, said before anything is done with it."""

from __future__ import annotations

from harness.engine.request import Request
from harness.errors import UsageError


def refusal(request: Request, max_tokens: int, longest: int | None, vocab: int) -> str | None:
    """Why a request can never be served, in one sentence; None when it can.

    Args:
        max_tokens: what the engine was built for, prompt and new tokens together.
        longest: tokens that the whole cache holds of one sequence; None where nothing is held.
        vocab: V.
    """
    name, asked = f"request {request.id}", len(request.prompt) + request.max_new_tokens
    if not request.prompt:
        return f"{name} has an empty prompt"
    if request.max_new_tokens < 1:
        return f"{name} asks for {request.max_new_tokens} new tokens; it must ask for one at least"
    if request.samples < 1:
        return f"{name} asks for {request.samples} answers; it must ask for one at least"
    if asked > max_tokens:
        return f"{name} needs {asked} tokens, and the engine was built for {max_tokens}"
    # The last token is never held.
    if longest is not None and asked - 1 > longest:
        return f"{name} needs {asked} tokens, and the whole cache holds {longest}"
    for token in (min(request.prompt), max(request.prompt)):
        if not 0 <= token < vocab:
            return f"{name} has the token {token}, outside the vocabulary of {vocab}"
    return None


def refuse_twins(request: Request, live: dict[int, int]) -> None:
    """UsageError for an id that is still being served: its emissions could not be told apart.

    Negative ids are the engine's own, of answers that branched off.
    """
    if request.id in live:
        raise UsageError(f"request {request.id} is being served already; give each its own id")
    if request.id < 0:
        raise UsageError(f"request {request.id} has a negative id; ids count from 0")
