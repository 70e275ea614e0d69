"""What a periodic function is worth to SEAL: the paper's conditions, what is really needed, and what it compacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from splitbench.core import registry
from splitbench.core.errors import CellError, SplitbenchError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


SIZES = (14, 16, 32)  # of ResNet-18's first feature maps for images of 28, 32 and 64 pixels
LARGEST = 512
OMEGAS = (0.9, 0.7, 0.4, 0.1)
BAND = (0.05, 0.95)  # of the feature maps
_IMAGES = 64
_VALUES = 2**24  # in all feature maps of one size: large maps come from fewer images
_POINTS = 240  # of a curve


def periodic() -> Any:
    """SEAL's functions and bases; imported when asked for, since they bring torch."""
    from splitbench.methods.seal import periodic as _periodic

    return _periodic


@dataclass(frozen=True)
class Compaction:
    """How soon the zig-zag order has gathered the energy of feature maps."""

    kept: Mapping[float, tuple[int, int, int]]  # coefficients at each omega: the median map, and the ends of the band
    shares: NDArray[np.float64]  # of the coefficients, at which the curves are given
    median: NDArray[np.float64]  # share of the energy
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Checked:
    """A function at one size."""

    size: int
    function: str
    integral: float  # over a period, as a share of the mean of |f|
    zero_nodes: int
    first: float  # f(0)
    smallest_row: float  # its length
    condition: float
    error: float | None  # the largest entry of |Q'Q - 1|; none without a basis
    problems: tuple[str, ...]

    @property
    def published(self) -> bool:
        """Whether the paper's two conditions hold."""
        return abs(self.integral) < 1e-6 and self.zero_nodes == 0

    @property
    def valid(self) -> bool:
        return not self.problems


@dataclass(frozen=True)
class Maps:
    """Feature maps to try a function on, and whose they are."""

    about: str
    sizes: tuple[int, ...]  # that there are; none: any
    at: Callable[[int], Tensor]  # (M, N, N) in float64


def function_at(text: str, size: int, key: int | None) -> Any:
    """The function that SEAL uses for maps of this size. A secret one is client 0's, drawn until it is valid there."""
    seal: Any = registry.load("defenses", "seal")
    try:
        return seal(function=text, key=key).function_of(size, size)
    except CellError as error:
        raise SplitbenchError(str(error)) from error


def check(function: Any, size: int, over: str = "rows") -> Checked:
    import torch

    verdict = periodic().judge(function, size)
    matrix = periodic().sampled(function, size)
    error = None
    if not verdict.problems:
        q = periodic().basis(function, size, over)
        error = float((q.T @ q - torch.eye(size, dtype=q.dtype)).abs().max())
    return Checked(
        size,
        function.name,
        verdict.integral,
        verdict.zero_nodes,
        float(matrix[0, 0]),
        float(matrix.norm(dim=1).min()),
        verdict.condition,
        error,
        verdict.problems,
    )


def compaction(function: Any, maps: Tensor, over: str = "rows") -> Compaction:
    """Of maps (M, N, N). A map that is zero has all of its energy from the first coefficient on, as SEAL sees it."""
    from splitbench.methods.seal.zigzag import order

    size = maps.shape[-1]
    q = periodic().basis(function, size, over)
    spectrum = (q @ maps @ q.T).flatten(-2)
    energy = spectrum[:, order(size, size)].square().cumsum(-1).numpy()
    total = energy[:, -1:]
    share = np.divide(energy, total, out=np.ones_like(energy), where=total > 0)
    kept = {omega: _whole(1 + (share < omega).sum(-1)) for omega in OMEGAS}
    count = size * size
    points = np.unique(np.geomspace(1, count, min(count, _POINTS)).round().astype(int))
    low, median, high = np.quantile(share[:, points - 1], (BAND[0], 0.5, BAND[1]), axis=0)
    return Compaction(kept, points / count, median, low, high)


def _whole(counts: NDArray[np.int_]) -> tuple[int, int, int]:
    low, median, high = np.quantile(counts, (BAND[0], 0.5, BAND[1]), method="inverted_cdf")
    return int(median), int(low), int(high)


def catalogue(sizes: Sequence[int] = SIZES) -> dict[str, list[Checked]]:
    """Every function that has a name, at several sizes."""
    return {name: [check(periodic().named(name), size) for size in sizes] for name in periodic().CATALOGUE}
