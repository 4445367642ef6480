"""What other tools read and write: results for asv, benchmarks of pytest-benchmark."""
