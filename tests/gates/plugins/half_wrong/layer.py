"""One matrix of the model has a row of zeros."""

from __future__ import annotations

from torch import Tensor

from harness.model.linear import Dense


class HalfWrong(Dense):
    """Dense, except that the second layer's output projection lost a row."""

    def __init__(self, name: str, weight: Tensor) -> None:
        if name == "1.o":
            weight = weight.clone()
            weight[5] = 0
        super().__init__(name, weight)
