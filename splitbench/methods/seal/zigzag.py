"""Which coefficients SEAL keeps: a prefix of the zig-zag order that holds the wanted share of the energy.

Here and not beside SEAL, since an adversary that simulates it computes the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

OneFor = Literal["map", "image", "batch"]

_HEAD = 64  # coefficients in which most maps have reached their share; the rest are looked at once more
_ROUNDING = 1e-4  # of a map's norm: a coefficient below is what single precision leaves of none
_TABLED = 2048  # places of a matrix for which every mask there can be is kept, in four megabytes


@functools.lru_cache(maxsize=64)
def order(height: int, width: int) -> Tensor:
    """The places of a (height, width) matrix, flattened, in zig-zag order (the paper's algorithm 3)."""
    places = torch.arange(height * width)
    i, j = places // width, places % width
    diagonal = i + j
    along = torch.where(diagonal % 2 == 1, i, -i)  # odd diagonals are walked down, even ones up
    return torch.argsort(diagonal * (2 * height) + along)


@functools.lru_cache(maxsize=64)
def rank(height: int, width: int) -> Tensor:
    """When each place is visited: the inverse of `order`."""
    return torch.argsort(order(height, width))


@functools.lru_cache(maxsize=8)
def _masks(height: int, width: int) -> Tensor:
    """(HW + 1, HW): what lies beyond each prefix. To copy one is faster than to compare."""
    return rank(height, width) >= torch.arange(height * width + 1)[:, None]


@torch.no_grad()
def dropped(spectrum: Tensor, omega: float, one_for: OneFor = "map") -> Tensor:
    """Where (..., H, W) lies beyond the shortest prefix with a share `omega` of the energy (algorithm 4).

    A prefix is found for each map, for all maps of an image together, or for all of the batch.
    """
    height, width = spectrum.shape[-2:]
    flat = spectrum.flatten(-2)
    return _beyond(_lengths(flat, order(height, width).to(flat.device), omega, one_for), height, width)


@torch.no_grad()
def behind_the_last(spectrum: Tensor) -> Tensor:
    """Where maps (..., H, W) that were cut off lie behind their last coefficient; rounding is not taken for one."""
    there = spectrum.abs() > _ROUNDING * torch.linalg.vector_norm(spectrum, dim=(-2, -1), keepdim=True)
    return _beyond(reach(there), *spectrum.shape[-2:])


def reach(there: Tensor) -> Tensor:
    """How far in the zig-zag maps (..., H, W) go: the length of the shortest prefix that has all that is there."""
    visited = rank(*there.shape[-2:]).view(there.shape[-2:]).to(there.device)
    return torch.where(there, visited + 1, 0).amax((-2, -1))


def projected(x: Tensor, down: Tensor, across: Tensor, beyond: Callable[[Tensor], Tensor]) -> Tensor:
    """Maps (..., H, W) without those coefficients in two bases that `beyond` marks; differentiable."""
    spectrum = down @ x @ across.T
    # In place: products do not need what they made to be differentiated.
    spectrum = spectrum.masked_fill_(beyond(spectrum.detach()), 0)
    return down.T @ spectrum @ across


def _beyond(length: Tensor, height: int, width: int) -> Tensor:
    """What lies behind prefixes of these lengths (...)."""
    if height * width <= _TABLED:
        beyond = _masks(height, width).to(length.device)[length]
    else:
        beyond = rank(height, width).to(length.device) >= length[..., None]
    return beyond.view(*length.shape, height, width)


def _lengths(flat: Tensor, walk: Tensor, omega: float, one_for: OneFor) -> Tensor:
    """How many coefficients are kept: (...) for maps, with ones where several share a prefix."""
    together = {"map": [], "image": [*range(1, flat.dim() - 1)], "batch": [*range(flat.dim() - 1)]}[one_for]
    # A norm is one pass over the coefficients, their squares would be two.
    total = torch.linalg.vector_norm(flat, dim=-1, keepdim=True).square()
    wanted = omega * _pooled(total, together)[..., 0]

    def reached(coefficients: Tensor, wanted: Tensor) -> Tensor:
        """The first prefix that holds enough, or as many as there are plus one."""
        energy = _pooled(coefficients.square_(), together).cumsum(-1)
        return (energy < wanted[..., None]).sum(-1) + 1

    head = min(_HEAD, len(walk))
    length = reached(flat[..., walk[:head]], wanted)
    late = length > head
    if head < len(walk) and bool(late.any()):
        if together:
            length = reached(flat[..., walk], wanted)
        else:
            length[late] = reached(flat[late][..., walk], wanted[late])
    # Rounding may keep the sum of all from reaching all of it.
    return length.clamp(max=len(walk))


def _pooled(energy: Tensor, together: list[int]) -> Tensor:
    return energy.sum(together, keepdim=True) if together else energy
