"""One case in one process: `python -P -m harness.worker job.json run.json`.

Importing this package imports nothing heavy: the parent only needs `harness.worker.job`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.run import RunRecord
    from harness.worker.job import Job


def run(job: Job) -> RunRecord:
    """Gate and measure a job in this process. Whatever happens, the record says it."""
    from harness.worker.execute import execute

    return execute(job, timed=True)


def verify(job: Job) -> RunRecord:
    """Only the gates before timing: a record without a metric, "ok" or "gate_failed"."""
    from harness.worker.execute import execute

    return execute(job, timed=False)
