"""The matrix that dense weights multiply by: the trained one."""

from torch import Tensor

from harness.technique import TechniqueOptions


def dense(_name: str, weight: Tensor, _options: TechniqueOptions) -> Tensor:
    """The matrix in effect of weight [out, in], float64 [out, in]."""
    return weight.double()
