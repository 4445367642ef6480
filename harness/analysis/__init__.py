"""Statistics over runs: results, ratios with intervals, fitted slopes."""
