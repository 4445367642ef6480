"""A run of one kernel by itself: gates at its own shape, timing, gates again, metrics."""

from __future__ import annotations

import torch

from harness import registry
from harness.gates.poison import poisoned
from harness.kernel import implementation
from harness.suite.points import KernelPoint
from harness.worker import kernel_timing
from harness.worker.job import Job
from harness.worker.kernel_gate import Kernel
from harness.worker.notes import Notes


def attempt(job: Job, notes: Notes, *, timed: bool) -> None:
    """Gate a kernel in float32 and in its own dtype, then time it and gate what it gave last."""
    point = job.case.workload
    assert isinstance(point, KernelPoint), f"{job.case.title} is no kernel's case"
    torch.set_num_threads(job.case.threads)
    spec = registry.kernel(point.kernel)
    used, call = implementation(spec, job.case.backend)
    notes.implementations = {point.kernel: used}
    notes.telemetry["gates_off"] = [
        name for name, on in job.gate.model_dump().items() if on is False
    ]
    kernel = Kernel(job, point, spec, call)
    dtype = getattr(torch, job.case.dtype)
    right = None
    with torch.inference_mode():
        if job.gate.numeric:
            # In float32 rounding hides nothing, whatever dtype is timed.
            for number, each in enumerate(dict.fromkeys((torch.float32, dtype))):
                suffix = "" if each == dtype else "_float32"
                inputs = kernel.inputs(number, each)
                with poisoned():
                    returned = call(*inputs)
                right = kernel.right(number, each)
                notes.gates += right.judge(returned, suffix)
        if timed and not notes.failed:
            kernel_timing.measure(kernel, dtype, right, notes)
