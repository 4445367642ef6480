"""Where the checkout and its folders are: suites, results. Imports nothing heavy.

The product is used from a checkout, so its folders stand beside the import package.
"""

from pathlib import Path


def root() -> Path:
    """The checkout that this `harness` package belongs to."""
    return Path(__file__).resolve().parent.parent


def results() -> Path:
    """Where the default database lives."""
    return root() / "results"


def suites() -> Path:
    """Where the shipped suites and their data are."""
    return root() / "suites"
