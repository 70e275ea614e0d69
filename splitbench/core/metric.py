"""A metric is a contract: what it compares, its direction, its range, its version."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from splitbench.core.component import Component


class Metric(Component):
    """One value per sample. The mean and its interval are the report's affair."""

    version: ClassVar[int | str] = 1
    about: ClassVar[Literal["inputs", "labels"]] = "inputs"
    leaks_when: ClassVar[Literal["high", "low"]] = "high"  # for utility metrics read: good when
    pooled: ClassVar[bool] = False  # true: one value for all samples together
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    tolerance: ClassVar[float] = 0.02  # a smaller difference between two means is no difference

    def __call__(self, recovered: Tensor, truth: Tensor) -> Tensor:
        """(N,) values, or a scalar if `pooled`. Images are (N, C, H, W) in [0, 1]."""
        raise NotImplementedError
