"""What this machine or this engine cannot do, said in one sentence before anything is built."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from harness.errors import HarnessError
from harness.worker.job import Job


class UnsupportedError(HarnessError):
    """A case that cannot run here at all; its run is `unsupported`, which is no failure."""


def refuse(job: Job, environment: Mapping[str, str], *, timed: bool) -> None:
    """Raise UnsupportedError where a case cannot run, or could only run untimed.

    Args:
        environment: the process's variables; `TRITON_INTERPRET=1` runs Triton kernels on a CPU.
        timed: False where only gates run.
    """
    case = job.case
    on_gpu = job.device != "cpu"
    if on_gpu and not torch.cuda.is_available():
        raise UnsupportedError(f"no device '{job.device}': torch sees no GPU")
    interpreted = environment.get("TRITON_INTERPRET") == "1"
    if case.backend == "triton":
        if not on_gpu and (timed or not interpreted):
            raise UnsupportedError(
                "no GPU: `harness verify` checks the Triton kernels in the interpreter"
            )
        if on_gpu and timed and interpreted:
            raise UnsupportedError(
                "TRITON_INTERPRET=1 is set: the interpreter's time is not a kernel's; unset it"
            )
        if interpreted and case.dtype == "bfloat16":
            raise UnsupportedError(
                "Triton's interpreter computes bfloat16 wrongly without saying so; verify in "
                "float32 or float16"
            )
    if case.cuda_graph and not on_gpu:
        raise UnsupportedError("cuda_graph needs a CUDA device; this case runs on the CPU")
