"""airspeed velocity: our results in its format, and its `asv run` over our suites."""
