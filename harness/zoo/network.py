"""The model as it is trained: a plain torch module whose parameters carry HuggingFace's names.

Pre-norm decoder as in Llama: RMSNorm, rotary positions on split halves, grouped-query attention,
SwiGLU, tied embeddings. It knows no cache; the engine has its own model.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.zoo.table import Architecture

# Standard deviation of the initial weights (GPT-2's); projections into the residual stream are
# divided by sqrt(2 L) so that its variance does not grow with depth.
INITIAL_STD = 0.02
# Tokens that the short convolution sees, and the spread of its initial weights, which keeps the
# size of what passes through.
CONV_WIDTH = 4
CONV_STD = CONV_WIDTH**-0.5
INTO_STREAM = ("o_proj.weight", "down_proj.weight")


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions (arXiv:2305.13245, arXiv:2104.09864)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        self.heads, self.kv_heads, self.head_dim = a.heads, a.kv_heads, a.head_dim
        self.q_proj = nn.Linear(a.width, a.heads * a.head_dim, bias=False)
        self.k_proj = nn.Linear(a.width, a.kv_heads * a.head_dim, bias=False)
        self.v_proj = nn.Linear(a.width, a.kv_heads * a.head_dim, bias=False)
        self.o_proj = nn.Linear(a.heads * a.head_dim, a.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]; `cos` and `sin` are [T, H]."""
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.heads, self.head_dim).transpose(1, 2)  # [B, N, T, H]
        k = self.k_proj(x).view(B, T, self.kv_heads, self.head_dim).transpose(1, 2)  # [B, K, T, H]
        v = self.v_proj(x).view(B, T, self.kv_heads, self.head_dim).transpose(1, 2)  # [B, K, T, H]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = self.heads // self.kv_heads
        if group > 1:
            k = k.repeat_interleave(group, dim=1)  # [B, N, T, H]
            v = v.repeat_interleave(group, dim=1)  # [B, N, T, H]
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # [B, N, T, H]
        projected: Tensor = self.o_proj(out.transpose(1, 2).reshape(B, T, -1))
        return projected


class ConvAttention(nn.Module):
    """Attention behind a short causal convolution (arXiv:2312.04927, section 4).

    Recalling a value by its key takes two steps: give each value the key before it, then look the
    key up. The convolution does the first, which attention alone learns late or never.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        width = architecture.width
        self.conv = nn.Conv1d(width, width, CONV_WIDTH, groups=width, bias=False)
        self.attention = Attention(architecture)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]; `cos` and `sin` are [T, H]."""
        before = functional.pad(x.mT, (CONV_WIDTH - 1, 0))  # [B, D, T+3]
        out: Tensor = self.attention(x + self.conv(before).mT, cos, sin)
        return out


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x)) (arXiv:2002.05202)."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(architecture.width, architecture.ff, bias=False)
        self.up_proj = nn.Linear(architecture.width, architecture.ff, bias=False)
        self.down_proj = nn.Linear(architecture.ff, architecture.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


# A mixer is built from the architecture and called with (x, cos, sin). Architectures to come
# add their class here and their name to a row of the table.
MIXERS: Mapping[str, Callable[[Architecture], nn.Module]] = MappingProxyType(
    {"attention": Attention, "conv-attention": ConvAttention}
)


class Layer(nn.Module):
    """One pre-norm block: a token mixer, then the feed-forward, each added to the stream.

    With a feed-forward of width 0 the mixer stands alone.
    """

    def __init__(self, architecture: Architecture, index: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(architecture.width, eps=architecture.eps)
        self.self_attn = MIXERS[architecture.mixer(index)](architecture)
        self.has_mlp = architecture.ff > 0
        if self.has_mlp:
            self.post_attention_layernorm = nn.RMSNorm(architecture.width, eps=architecture.eps)
            self.mlp = FeedForward(architecture)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[B, T, D] to [B, T, D]."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        if not self.has_mlp:
            return x
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Network(nn.Module):
    """Tokens [B, T] to logits [B, T, V]."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.embed_tokens = nn.Embedding(architecture.vocab, architecture.width)
        self.layers = nn.ModuleList(Layer(architecture, i) for i in range(architecture.layers))
        self.norm = nn.RMSNorm(architecture.width, eps=architecture.eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, V] of tokens [B, T] that start at position 0."""
        cos, sin = rope_table(tokens.shape[1], self.architecture)
        x = self.embed_tokens(tokens)  # [B, T, D]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.norm(x), self.embed_tokens.weight)  # [B, T, V]


def build(architecture: Architecture, seed: int, spread: float = INITIAL_STD) -> Network:
    """A network with seeded random weights, the same ones on every machine.

    `spread` is the standard deviation of the matrices that do not write into the stream.
    """
    generator = torch.Generator().manual_seed(seed)
    network = Network(architecture)
    residual_std = spread / (2 * architecture.layers) ** 0.5
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim < 2:
                continue
            std = residual_std if name.endswith(INTO_STREAM) else spread
            if name.endswith("conv.weight"):
                std = CONV_STD
            weight.normal_(std=std, generator=generator)
    return network


def rope_table(length: int, architecture: Architecture) -> tuple[Tensor, Tensor]:
    """Cosines and sines [T, H] of positions 0..T-1; both halves of H hold the same angles."""
    half = torch.arange(0, architecture.head_dim, 2, dtype=torch.float32) / architecture.head_dim
    frequency = 1.0 / architecture.theta**half  # [H/2]
    angle = torch.outer(torch.arange(length, dtype=torch.float32), frequency)  # [T, H/2]
    angle = torch.cat((angle, angle), dim=-1)  # [T, H]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate [..., T, H], pairing element i with i + H/2."""
    first, second = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat((-second, first), dim=-1) * sin.to(x.dtype)
