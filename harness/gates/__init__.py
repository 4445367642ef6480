"""Correctness checks that must pass before a result may carry performance."""
