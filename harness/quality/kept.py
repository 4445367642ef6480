"""Quality that was computed before: the same inputs give the same numbers, so they are kept.

One JSON file a case in `results/quality/`, by a hash of everything that decides the numbers: the
case (which holds the checkpoints' hashes), the gates, the code of the harness and of plugins, the
corpus, the libraries, the device. Nothing is ever out of date: whatever changes changes the name.
The folder may be removed at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, ValidationError

from harness import paths
from harness.records import Record
from harness.run import GateResult, MetricValue
from harness.worker.job import Job
from harness.zoo import corpus

_LIBRARIES = ("torch", "triton", "numpy", "tokenizers", "safetensors", "gguf")


class Kept(Record):
    """What a run found, to be told again."""

    computed_at: datetime
    seconds: float
    metrics: tuple[MetricValue, ...]
    gates: tuple[GateResult, ...]
    implementations: dict[str, str]
    telemetry: dict[str, Any] = Field(default_factory=dict)


def key(job: Job) -> str:
    """The name of a job's numbers."""
    capability: str = torch.backends.cpu.get_cpu_capability()
    device = capability if job.device == "cpu" else torch.cuda.get_device_name()
    content = {
        "case": job.case.hash,
        "gate": job.gate.model_dump(),
        "device": [job.device, device],
        "code": code_digest(job.plugin_paths),
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def find(name: str) -> Kept | None:
    """The numbers of that name; None where there are none, or none that can be read."""
    try:
        return Kept.model_validate_json(_file(name).read_bytes())
    except (OSError, ValidationError):
        return None


def keep(name: str, kept: Kept) -> str | None:
    """Keep numbers under a name, whole or not at all; why not, where it cannot be done."""
    file = _file(name)
    fresh = file.with_suffix(".fresh")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(kept.model_dump_json(), encoding="utf-8")
        fresh.replace(file)
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return None


def code_digest(plugin_paths: tuple[str, ...] = ()) -> str:
    """SHA-256 over the sources of the harness, techniques, kernels, plugins, and the corpus."""
    digest = hashlib.sha256()
    for path in _sources(plugin_paths):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _sources(plugin_paths: tuple[str, ...]) -> Iterator[Path]:
    package = Path(__file__).resolve().parent.parent
    # Two of its folders are links, which a search does not follow.
    for folder in (package, (package / "techniques").resolve(), (package / "kernels").resolve()):
        yield from sorted(folder.rglob("*.py"))
    yield from sorted(corpus.FOLDER.glob("*.txt"))
    for given in plugin_paths:
        yield from sorted(Path(given).rglob("*.py"))


def _version(library: str) -> str | None:
    """None where it is not installed, as Triton is not everywhere."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _file(name: str) -> Path:
    return paths.results() / "quality" / f"{name}.json"
