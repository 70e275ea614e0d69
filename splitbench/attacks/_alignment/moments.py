"""The first two moments of feature maps, and how far apart those of two sets of maps are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_OFFSETS = ((0, 0), (0, 1), (1, 0))  # places whose channels are correlated with each other
_PLACES_ENOUGH = 256  # of larger maps, covariances are taken at about so many places, an even grid of them
# Weight of the mean at each place, which alone tells a feature from its negative: to learn by, and to choose by, where
# the means of other samples tell less.
PLACES, PLACES_TO_CHOOSE = 10.0, 1.0


@dataclass(frozen=True)
class Moments:
    mean: Tensor  # (C, H, W), of each channel at each place
    covariance: Tensor  # (3, C, C), of channels at a place, with those to the right, with those below

    @classmethod
    def of(cls, maps: Tensor, every: int = 1) -> Moments:
        """Of maps (N, C, H, W); the covariance, which takes the time and settles sooner, of every so many of them."""
        mean = maps.mean(0)
        centred = (maps[::every] - mean.mean((1, 2), keepdim=True)).transpose(0, 1)  # (C, N, H, W)
        height, width = mean.shape[1:]
        apart = max(1, round((height * width / _PLACES_ENOUGH) ** 0.5))
        products = []
        for down, right in _OFFSETS:
            a = centred[:, :, down::apart, right::apart]
            b = centred[:, :, : height - down : apart, : width - right : apart]
            products.append(a.flatten(1) @ b.flatten(1).T / max(a[0].numel(), 1))
        return cls(mean, torch.stack(products))

    def apart(self, wanted: Moments, places: float = PLACES) -> Tensor:
        """How far these are from the wanted ones, in units of the wanted standard deviations."""
        spread = wanted.covariance[0].diagonal().sqrt()
        spread = spread.clamp(min=max(1e-3 * spread.max().item(), 1e-6))
        means = ((self.mean - wanted.mean) / spread[:, None, None]).square().mean()
        products = ((self.covariance - wanted.covariance) / torch.outer(spread, spread)).square()
        return places * means + products.mean((1, 2)).sum()
