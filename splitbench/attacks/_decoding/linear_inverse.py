"""The best linear way back from smashed data to images, in closed form."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._decoding.grid import Grid, resized

_PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # relative to the mean variance of a feature
_WORK = 2e10  # multiplications for the normal equations: about a second
_UNKNOWNS = 2048  # of the largest system solved
_READ = 1536  # with more features than this in a neighbourhood, a tile is read from its own place alone


class LinearInverse(nn.Module):
    """Each tile of an image from the features around its place, by ridge regression.

    The first layers of most clients are linear or nearly so: for them nothing learned by descent comes near, and for
    the others this is where descent starts. Means are kept per place, so that silent features give the mean image.
    """

    centre: Tensor
    scale: Tensor
    mean: Tensor
    weight: Tensor

    def __init__(self, grid: Grid, shape: tuple[int, ...], z: Tensor, x: Tensor) -> None:
        """From auxiliary features (N, ...) and their images (N, C, H, W)."""
        super().__init__()
        self.grid, self.shape, self.tile = grid, shape, grid.tile(shape)
        self.kernel = 3 if grid.channels * 9 <= _READ and grid.height * grid.width > 1 else 1
        maps = grid.maps(z)
        spread = (maps - maps.mean(0)).square().mean((0, 2, 3)).sqrt()
        # A channel that is silent here says nothing, however loud it is elsewhere.
        spread = spread.masked_fill(spread <= 1e-4 * spread.max(), torch.inf)
        self.register_buffer("centre", maps.mean(0))
        self.register_buffer("scale", spread[:, None, None])
        self.register_buffer("mean", x.mean(0))
        weight = self._solved(self.standardised(maps), x - self.mean)
        self.register_buffer("weight", weight.T.reshape(-1, grid.channels, self.kernel, self.kernel).contiguous())

    def forward(self, z: Tensor) -> Tensor:
        tiles = F.conv2d(self.standardised(self.grid.maps(z)), self.weight, padding=self.kernel // 2)
        return self.mean + resized(F.fold(tiles.flatten(2), self._size, self.tile, stride=self.tile), self.shape[1:])

    def standardised(self, maps: Tensor) -> Tensor:
        return (maps - self.centre) / self.scale

    @property
    def _size(self) -> tuple[int, int]:
        return self.grid.height * self.tile[0], self.grid.width * self.tile[1]

    def _rows(self, maps: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """One row a place: its features (R, K), the pixels of its tile (R, T)."""
        features = F.unfold(maps, self.kernel, padding=self.kernel // 2)
        tiles = F.unfold(resized(x, self._size), self.tile, stride=self.tile)
        return features.transpose(1, 2).flatten(0, 1), tiles.transpose(1, 2).flatten(0, 1)

    def _solved(self, maps: Tensor, x: Tensor) -> Tensor:
        """(K, T), with the penalty that does best on images kept aside."""
        places, count = self.grid.height * self.grid.width, self.grid.channels * self.kernel**2
        aside = min(len(x) // 5, max(1, 20_000 // places))
        images = max(1, min(len(x) - aside, int(_WORK / count**2 / places)))
        if count > _UNKNOWNS:
            images = max(1, min(images, _UNKNOWNS // places))
        parts = torch.split(maps[:images], 64), torch.split(x[:images], 64)
        pieces = [self._rows(m, t) for m, t in zip(*parts, strict=True)]
        rows = images * places
        if count <= rows:
            # Summed in double: what the smallest penalties leave is the difference of large numbers.
            left = torch.stack([(a.T @ a).double() for a, _ in pieces]).sum(0)
            right = torch.stack([(a.T @ b).double() for a, b in pieces]).sum(0)
        else:  # fewer rows than features: the same solution from the smaller system
            a, b = (torch.cat(side).double() for side in zip(*pieces, strict=True))
            left, right = a @ a.T, b
        eye = torch.eye(len(left), dtype=left.dtype, device=left.device) * max(rows, 1)
        # Too few images to choose by: shrink.
        penalties = _PENALTIES if aside else _PENALTIES[-2:-1]
        found: list[Tensor] = [torch.linalg.solve(left + penalty * eye, right) for penalty in penalties]
        if count > rows:
            found = [a.T @ solution for solution in found]
        found = [solution.float() for solution in found]
        if not aside:
            return found[0]
        kept, tiles = self._rows(maps[-aside:], x[-aside:])
        errors = torch.stack([(kept @ weight - tiles).square().mean() for weight in found])
        return found[int(errors.argmin())]
