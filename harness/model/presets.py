"""Published shapes, to be run with seeded random weights, and `tiny` for tests."""

from harness.shape import ModelShape, RopeScaling

# Llama 3.1 and 3.2: factor differs, the rest is shared.
_LLAMA_32_ROPE = RopeScaling(
    factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=8192
)

PRESETS: dict[str, ModelShape] = {
    # Small and odd on purpose (no two sizes equal), for tests and the self-test.
    "tiny": ModelShape(
        vocab=101, width=48, layers=3, heads=4, kv_heads=4, head_dim=16, ff=112, max_len=4096
    ),
    # arXiv:2307.09288, Table 1 and the released config.
    "llama-2-13b": ModelShape(
        vocab=32000,
        width=5120,
        layers=40,
        heads=40,
        kv_heads=40,
        head_dim=128,
        ff=13824,
        eps=1e-5,
        theta=10000.0,
        max_len=4096,
    ),
    # arXiv:2407.21783, Table 3 and the released config.
    "llama-3-8b": ModelShape(
        vocab=128256,
        width=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        head_dim=128,
        ff=14336,
        eps=1e-5,
        theta=500000.0,
        # Longer than the released 8,192, so that a prompt of that length can be continued.
        max_len=16384,
    ),
    # The released config of Llama 3.2 1B.
    "llama-3.2-1b": ModelShape(
        vocab=128256,
        width=2048,
        layers=16,
        heads=32,
        kv_heads=8,
        head_dim=64,
        ff=8192,
        eps=1e-5,
        theta=500000.0,
        rope_scaling=_LLAMA_32_ROPE,
        tied=True,
        max_len=131072,
    ),
}
