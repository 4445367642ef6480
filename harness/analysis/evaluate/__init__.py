"""The detector's own benchmark: series with known changes, and what detectors make of them."""
