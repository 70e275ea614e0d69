"""Sets of spectral tokens put in order: by symmetry, by magnitudes, or by what is known of the images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.attacks._spectral.crops import Crops
from splitbench.attacks._spectral.magnitudes import Magnitudes, placed
from splitbench.attacks._spectral.symmetry import arranged, assigned

_TRIED = 128  # public images whose likeliest order is compared with the true one
_VALUES = 10_000_000  # of tokens, or of distances between them, at a time


def by_symmetry(tokens: Tensor, crops: Crops, together: int = 1) -> Tensor:
    """Tokens (N, L, D), those of `together` images in any order, each in its place; up to the shifts that stay open."""
    if together == 1:
        return in_parts(lambda z: placed(z, arranged(crops.complex(z), crops)[:, 0]), tokens)
    return torch.cat([_unmixed(part, crops) for part in torch.split(tokens, together)])


def _unmixed(rows: Tensor, crops: Crops) -> Tensor:
    """Each image in the row (B, L, D) that holds most of its tokens."""
    pool, count = rows.flatten(0, 1)[None], len(rows)
    order = arranged(crops.complex(pool), crops, count)[0]  # (images, L)
    votes = torch.zeros(count, count, device=rows.device)
    votes.scatter_add_(1, order // crops.places, torch.ones_like(order, dtype=votes.dtype))
    return pool[0][order[assigned(votes.T[None])[0]]]


def by_magnitudes(tokens: Tensor, usual: Magnitudes, crops: Crops) -> Tensor:
    """Tokens (N, L, D) in the likeliest order."""
    return in_parts(lambda z: placed(z, usual.arranged(crops.complex(z))), tokens)


def by_truth(tokens: Tensor, known: Tensor) -> Tensor:
    """Tokens (N, L, D) in the order of what they should be, (N, L, D): what the client really sends of each place."""
    parts = zip(torch.split(tokens, 64), torch.split(known, 64), strict=True)
    return torch.cat([placed(z, assigned(-torch.cdist(true, z).square())) for z, true in parts])


@dataclass(frozen=True)
class Usual:
    """How loud each frequency is in public images, and by how much other orders seem likelier than theirs."""

    magnitudes: Magnitudes
    doubt: float

    @classmethod
    def of(cls, known: Tensor, crops: Crops) -> Usual:
        """From tokens (N, L, D) in their places."""
        found = Magnitudes.of(crops.complex(known))
        some = known[:_TRIED]
        gained = _gained(some, by_magnitudes(some, found, crops), found, crops)
        return cls(found, 2 * float(gained.max()))

    def better(self, symmetric: Tensor, crops: Crops) -> Tensor:
        """Tokens (N, L, D) sorted by symmetry, of those images sorted by magnitudes for which that is better.

        As it is where symmetry has nothing to say. Of many orders the likeliest is likelier than the true one, but not
        by more than it is for public images.
        """
        loud = by_magnitudes(symmetric, self.magnitudes, crops)
        unlikely = _gained(symmetric, loud, self.magnitudes, crops) > self.doubt
        return torch.where(unlikely[:, None, None], loud, symmetric)


def _gained(tokens: Tensor, others: Tensor, usual: Magnitudes, crops: Crops) -> Tensor:
    return usual.unlikely(crops.complex(tokens)) - usual.unlikely(crops.complex(others))


def in_parts(make: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
    """So many images at a time as fit into the memory."""
    size = max(tokens[0].numel(), tokens.shape[1] ** 2)
    return torch.cat([make(part) for part in torch.split(tokens, max(1, _VALUES // size))])
