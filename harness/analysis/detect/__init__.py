"""Change detection on the history of a series: steps, drift, and what tonight alone says."""
