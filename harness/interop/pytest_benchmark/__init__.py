"""pytest-benchmark: its results into the store, and a fixture that times on a GPU."""
