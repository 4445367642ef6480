"""The numeric gate: how far an output may be from the exact one. Every gate's tolerance is here.

At most twice as far as the reference itself is when it runs in the timed dtype, plus a floor of a
few roundings at the output's own size; on the largest error and on the RMS. Twice is the rule of
flash-attention's tests; the RMS catches a small error everywhere, the maximum a large one anywhere.
The exact side is the reference in float64: in float32 its own error would be zero and the bound
nonsense. The reference's error over one or two rows is too few draws: 3 of 146 right runs failed by
it, and none once it was taken over at least 64 rows. Where float64 is what is timed the
reference's own error is zero indeed, and the floor is all there is.

One tolerance is not here: by how much a time may beat the device's limits is measured with them, as
`headroom` of `harness.hardware.ceilings`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from harness.gates.verdict import failed, verdict
from harness.run import GateResult

# An implementation that sums in another order is as wrong as the reference, not twice as wrong.
ERROR_FACTOR = 2.0
# Roundings of the largest output that are granted when the reference happens to be exact.
FLOOR_ROUNDINGS = 2.0
# The same where the reference is its own exact side: all that another order of summation costs.
# Seen: 7 to 10 on the largest error, 4 to 6 on the RMS, of tiny and zoo/small-gqa.
FLOAT64_FLOOR_ROUNDINGS = 64.0
# Two trusted paths that differ by d at most may rank tokens up to 2 d apart differently.
REGRET_FACTOR = 2.0
# Share of a random token's regret. On the trained models, 12 prompts each: first tokens of another
# prompt's answer 0.07 to 1.06, on average 0.6; any token of weights rounded to 3 or 4 bits at most
# 0.06.
UNRELATED_SHARE = 0.2
# CPU time of a window over its time and threads: the kernel's accounting is exact to a few percent.
CPU_TIME_FACTOR = 1.1


@dataclass(frozen=True)
class Bounds:
    """Largest permitted errors, in the output's unit."""

    max: float
    rms: float


@dataclass(frozen=True)
class Errors:
    """Largest and root-mean-square difference from the exact output."""

    max: float
    rms: float

    def within(self, bounds: Bounds) -> bool:
        """Both at or below their bound; NaN is not."""
        return self.max <= bounds.max and self.rms <= bounds.rms


def errors(output: Tensor, exact: Tensor) -> Errors:
    """Errors of an output against the exact one, computed in float64."""
    difference = output.double() - exact.double()
    return Errors(difference.abs().max().item(), _rms(difference))


def own_errors(trusted: Tensor, exact: Tensor, rows: int) -> Errors:
    """The reference's own errors, [T, V], as they may fall on `rows` of the T rows.

    The RMS is that of the worst `rows` consecutive ones: a few rows may all lie in a bad place.
    """
    squares = (trusted.double() - exact.double()).square()
    by_row = squares.mean(-1)  # [T]
    sums = torch.cat([by_row.new_zeros(1), by_row.cumsum(0)])
    count = min(rows, len(by_row))
    windows = (sums[count:] - sums[:-count]) / count
    return Errors(squares.max().sqrt().item(), windows.max().sqrt().item())


def bounds(own: Errors, exact: Tensor, dtype: torch.dtype) -> Bounds:
    """What is permitted, given the reference's own errors in the timed dtype."""
    return Bounds(
        max=ERROR_FACTOR * own.max + floor(dtype) * exact.abs().max().item(),
        rms=ERROR_FACTOR * own.rms + floor(dtype) * _rms(exact),
    )


def floor(dtype: torch.dtype) -> float:
    """What is granted whatever the reference's own error is, as a share of the output's size."""
    roundings = FLOAT64_FLOOR_ROUNDINGS if dtype is torch.float64 else FLOOR_ROUNDINGS
    return roundings * torch.finfo(dtype).eps


def check_numeric(
    output: Tensor,
    trusted: Tensor,
    exact: Tensor,
    dtype: torch.dtype,
    *,
    name: str = "numeric",
    own: Errors | None = None,
) -> list[GateResult]:
    """Hold an output to the exact one: `<name>_max`, `<name>_rms` and `<name>_controls`.

    The controls are the gate's own teeth, tried on each call: an output of zeros and the exact
    output in shuffled order must both fail, or the gate could not have told a wrong output.

    Args:
        output: of the implementation on trial, any shape.
        trusted: of the reference in the timed dtype, same shape.
        exact: of the reference in float64, same shape.
        dtype: the timed dtype.
        own: the reference's errors where more of it was computed than is judged; None: those of
            `trusted`.
    """
    names = (f"{name}_max", f"{name}_rms", f"{name}_controls")
    if not output.shape == trusted.shape == exact.shape or exact.numel() == 0:
        shapes = f"{list(output.shape)}, the reference's is {list(exact.shape)}"
        return [failed(each, "", f"the output's shape is {shapes}") for each in names]
    if not bool(torch.isfinite(exact).all() & torch.isfinite(trusted).all()):
        return [failed(each, "", "the reference is not finite") for each in names]
    permitted = bounds(own or errors(trusted, exact), exact, dtype)
    seen = errors(output, exact)
    blind = [
        control
        for control, wrong in (("zeros", torch.zeros_like(exact)), ("shuffled", _shuffled(exact)))
        if errors(wrong, exact).within(permitted)
    ]
    size = f"over {exact.numel()} numbers, the largest {exact.abs().max().item():.4g}"
    return [
        verdict(names[0], seen.max, permitted.max, "logit", size),
        verdict(names[1], seen.rms, permitted.rms, "logit", size),
        verdict(
            names[2],
            len(blind),
            0,
            "controls passed",
            f"would pass: {', '.join(blind)}" if blind else "zeros and shuffled both fail",
        ),
    ]


def check_output(
    output: Tensor, trusted: Tensor, exact: Tensor, *, name: str = "numeric"
) -> list[GateResult]:
    """An output of a kernel held to its reference's: `check_numeric`, in the dtype of `trusted`.

    Whole numbers, tokens say, must be the reference's: `<name>_whole`.
    """
    if exact.is_floating_point():
        return check_numeric(output, trusted, exact, trusted.dtype, name=name)
    name = f"{name}_whole"
    if output.shape != exact.shape or output.dtype != exact.dtype:
        told = f"{list(output.shape)} {output.dtype}, not {list(exact.shape)} {exact.dtype}"
        return [failed(name, "numbers", told)]
    different = int((output != exact).sum())
    detail = f"{different} of {exact.numel()} numbers differ"
    return [verdict(name, different, 0, "numbers", detail)]


def _shuffled(exact: Tensor) -> Tensor:
    """The same numbers in another order, always the same one."""
    generator = torch.Generator(exact.device).manual_seed(0)
    order = torch.randperm(exact.numel(), generator=generator, device=exact.device)
    return exact.flatten()[order].view_as(exact)


def _rms(x: Tensor) -> float:
    return x.double().square().mean().sqrt().item()
