"""Recovered patches put where they fit the truth best."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from splitbench.core.metric import Truth
from splitbench.methods.shuffling.patches import patched, unpatched
from splitbench.metrics._images import unsuitable

_TIE = 1e-9  # far below the squared error that a step of 1/255 in one pixel makes


def indivisible(truth: Truth, patch: int, smallest: int = 1) -> str | None:
    """Why the truth cannot be compared patch by patch; None if it can."""
    if why := unsuitable(truth, smallest):
        return why
    height, width = truth.values.shape[-2:]
    if height % patch or width % patch:
        return f"images of {height} x {width} pixels cannot be cut into patches of {patch} x {patch}"
    return None


def cut(images: Tensor, patch: int) -> Tensor:
    """(N, L, D): the patches, row by row."""
    return patched(images, images.shape[-2] // patch, images.shape[-1] // patch)


def assignment(recovered: Tensor, true: Tensor) -> Tensor:
    """(N, L): to which place of the truth each recovered patch goes, so that the squared error is the least possible.

    Ties go against the guess, so that one which is the same everywhere has nothing in its place. An image with a NaN
    is left as it is.
    """
    # |a - b|^2 written out: all pairs of an image are one product of matrices.
    squares = recovered.square().sum(2)[:, :, None] + true.square().sum(2)[:, None, :]
    costs = squares - 2 * recovered @ true.mT + _TIE * torch.eye(true.shape[1], dtype=true.dtype, device=true.device)
    unknown = costs.isnan().flatten(1).any(1)
    found = [linear_sum_assignment(cost)[1] for cost in costs.masked_fill(unknown[:, None, None], 0.0).cpu().numpy()]
    places = torch.from_numpy(np.array(found, dtype=np.int64).reshape(recovered.shape[:2])).to(true.device)
    return torch.where(unknown[:, None], torch.arange(true.shape[1], device=true.device), places)


def reassigned(recovered: Tensor, true: Tensor, patch: int) -> Tensor:
    """The recovered images with their patches where they fit best."""
    pieces = cut(recovered, patch)
    places = assignment(pieces, cut(true, patch))
    placed = torch.empty_like(pieces).scatter_(1, places[:, :, None].expand_as(pieces), pieces)
    rows, columns = recovered.shape[-2] // patch, recovered.shape[-1] // patch
    return unpatched(placed, recovered.shape[1:], rows, columns)
