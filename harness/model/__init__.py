"""The decoder language model: layers, checkpoints, presets. Its `source` imports no torch."""
