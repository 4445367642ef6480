"""What `asv run` finds here, by asv.conf.json: benchmarks generated from suites."""
