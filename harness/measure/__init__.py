"""Clocks, warm-up, adaptive sampling, memory and telemetry."""
