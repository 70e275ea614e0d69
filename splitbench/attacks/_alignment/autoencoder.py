"""Features of the adversary's own choosing, from which images come back."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.attacks._decoding.grid import Grid, resized
from splitbench.attacks._steps.descent import descend, shuffled
from splitbench.core.progress import steps


class Tiles(nn.Module):
    """The plainest decoder: each place writes its tile of the image, after a look at its neighbours."""

    def __init__(self, grid: Grid, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.grid, self.shape, self.tile = grid, shape, grid.tile(shape)
        pixels = shape[0] * self.tile[0] * self.tile[1]
        self.write = nn.Conv2d(grid.channels, pixels, 3, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        tiles = self.write(self.grid.maps(z))
        size = (self.grid.height * self.tile[0], self.grid.width * self.tile[1])
        return resized(F.fold(tiles.flatten(2), size, self.tile, stride=self.tile), self.shape[1:])


def autoencode(
    encoder: nn.Module, grid: Grid, x: Tensor, total: int, batch: int, lr: float, generator: Generator, what: str
) -> nn.Module:
    """Train an encoder together with a plain decoder to give images back; returns it in evaluation mode, fixed."""
    decoder = Tiles(grid, tuple(x.shape[1:])).to(x.device)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr)
    batches = shuffled(x, batch, generator)
    encoder.train()
    for _ in (bar := steps(what, total)):
        images = x[next(batches)]
        loss = F.mse_loss(decoder(encoder(images)), images)
        descend(optimizer, loss)
        bar.saw("error", loss)
    return encoder.eval().requires_grad_(False)
