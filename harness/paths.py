"""Where the checkout and its folders are: suites, results, models. Imports nothing heavy.

The product is used from a checkout, so its folders stand beside the import package.
"""

from pathlib import Path


def root() -> Path:
    """The checkout that this `harness` package belongs to."""
    return Path(__file__).resolve().parent.parent


def results() -> Path:
    """Where the default database lives."""
    return root() / "results"


def models() -> Path:
    """Where `harness models fetch` puts what it brings: in the checkout, like all that this one
    writes, so that a worker finds it without being told and nothing stays behind elsewhere."""
    return results() / "models"


def suites() -> Path:
    """Where the shipped suites and their data are."""
    return root() / "suites"
