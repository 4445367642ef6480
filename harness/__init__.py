"""A benchmark and regression-tracking harness for inference techniques."""
