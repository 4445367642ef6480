"""Which mixer each layer has, what state the layers declare, and what weights they need.

A mixer is a class, named "module:Class" in `ModelShape.mixers`:

    state(shape, layers) -> TokenState | SequenceState     static: what these layers keep; a mixer
                                                           that keeps both gives a tuple
    weights(shape, owner) -> {"q": (rows, columns), ...}   static: its tensors, without the layer
    Mixer(parts, layer, group, owner)                      parts: harness.model.building.Parts;
                                                           group: its state's number among those
                                                           of its kind, a tuple where it has both
    mixer(x, residual, batch, store) -> [T, D]             x is normed

Of layers that share state (`ModelShape.spans`) the first is the owner, and alone writes.
"""

from __future__ import annotations

from harness.shape import STANDARD_MIXER, ModelShape, SequenceState, TokenState
from harness.technique import load

Sizes = dict[str, tuple[int, ...]]
Group = int | tuple[int, ...]


def mixer_target(shape: ModelShape, layer: int) -> str:
    """The "module:Class" of a layer's mixer."""
    return shape.mixers[layer] if shape.mixers else STANDARD_MIXER


def layout(
    shape: ModelShape,
) -> tuple[list[TokenState], list[SequenceState], list[tuple[Group, bool]]]:
    """What state the layers declare: token groups, sequence groups, and (group, owner) by layer."""
    tokens: list[TokenState] = []
    sequences: list[SequenceState] = []
    places: list[tuple[Group, bool]] = []

    def numbered(state: TokenState | SequenceState) -> int:
        if isinstance(state, TokenState):
            tokens.append(state)
            return len(tokens) - 1
        sequences.append(state)
        return len(sequences) - 1

    for span in shape.spans():
        state = load(mixer_target(shape, span.start)).state(shape, tuple(span))
        group = tuple(map(numbered, state)) if isinstance(state, tuple) else numbered(state)
        places += [(group, layer == span.start) for layer in span]
    return tokens, sequences, places


def tensors(shape: ModelShape) -> Sizes:
    """Names and shapes of a model's tensors: embedding, layers of mixer and feed-forward, head."""
    D, F, V = shape.width, shape.ff, shape.vocab
    sizes: Sizes = {"embed": (V, D), "norm": (D,)}
    if not shape.tied:
        sizes["head"] = (V, D)
    _, _, places = layout(shape)
    for layer, (_, owner) in enumerate(places):
        sizes[f"{layer}.norm1"] = (D,)
        mixer = load(mixer_target(shape, layer))
        sizes |= {f"{layer}.{part}": size for part, size in mixer.weights(shape, owner).items()}
        if F:
            sizes |= {
                f"{layer}.norm2": (D,),
                f"{layer}.gate": (F, D),
                f"{layer}.up": (F, D),
                f"{layer}.down": (D, F),
            }
        if shape.post_norms:
            sizes |= {f"{layer}.norm1_post": (D,), f"{layer}.norm2_post": (D,)}
    return sizes
