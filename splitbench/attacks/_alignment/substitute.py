"""A client made up by an adversary that knows no more of the real one than the shape of what it sends."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._alignment.moments import PLACES_TO_CHOOSE, Moments
from splitbench.attacks._decoding.grid import Grid, resized
from splitbench.core.view import View

_RIDGE = 1e-3  # relative to the mean square of what is seen


class Substitute(nn.Module):
    """Tiles of the image, seen with their neighbours, become features of the shape observed.

    Linear but for `blocks` residual ones and, where nothing negative was ever seen, a rectifier at the end.
    """

    def __init__(self, grid: Grid, shape: tuple[int, ...], rectified: bool, blocks: int = 0) -> None:
        super().__init__()
        self.grid = grid
        tall, wide = grid.tile(shape)
        self.size = (tall * self.grid.height, wide * self.grid.width)
        (tall_kernel, above), (wide_kernel, beside) = _window(tall, self.size[0]), _window(wide, self.size[1])
        channels = self.grid.channels
        layers: list[nn.Module] = [
            nn.Conv2d(
                shape[0],
                channels,
                (tall_kernel, wide_kernel),
                stride=(tall, wide),
                padding=(above, beside),
                bias=False,
            ),
            nn.BatchNorm2d(channels),
        ]
        layers += [_Block(channels) for _ in range(blocks)]
        if rectified:
            layers.append(nn.ReLU())
        self.layers = nn.Sequential(*layers)

    @classmethod
    def of(cls, view: View, observed: Tensor, blocks: int = 0) -> Substitute:
        """For what was observed of the client's features, begun as one that sends the pixels or as one that makes
        their means of the mean image, whichever comes nearer.

        From there moments find the client; from weights drawn at random they find one of many that look alike.
        """
        assert view.auxiliary is not None
        x, grid = view.auxiliary.x, Grid.of_view(view)
        maps = grid.maps(observed)
        regressed, plain = (cls(grid, view.shape, rectified(observed), blocks).to(x.device) for _ in range(2))
        regressed._regress(x.mean(0, keepdim=True), maps)
        plain._copy_pixels()
        for made in (regressed, plain):
            made._scale(maps)
        wanted = Moments.of(maps)
        with torch.no_grad():
            regressed_apart, plain_apart = (
                Moments.of(grid.maps(made(x[:256]))).apart(wanted, PLACES_TO_CHOOSE) for made in (regressed, plain)
            )
        return plain if plain_apart < regressed_apart else regressed

    @torch.no_grad()
    def _copy_pixels(self) -> None:
        """Each channel is one pixel of the tile."""
        conv = self.layers[0]
        assert isinstance(conv, nn.Conv2d)
        tall, wide = (int(side) for side in conv.stride)
        above, beside = (int(side) for side in conv.padding)
        channel = torch.arange(len(conv.weight), device=conv.weight.device)
        pixel = channel % (conv.in_channels * tall * wide)
        conv.weight.zero_()
        colour, place = pixel // (tall * wide), pixel % (tall * wide)
        conv.weight[channel, colour, above + place // wide, beside + place % wide] = 1.0

    @torch.no_grad()
    def _scale(self, maps: Tensor) -> None:
        """Batch norm gives each channel the spread and the mean observed."""
        norm = self.layers[1]
        assert isinstance(norm, nn.BatchNorm2d)
        norm.weight.copy_(maps.std((0, 2, 3)).nan_to_num())
        norm.bias.copy_(maps.mean((0, 2, 3)))

    @torch.no_grad()
    def _regress(self, mean: Tensor, maps: Tensor) -> None:
        """By ridge regression: one row a place, from what it sees of the mean image to the means of its features."""
        conv = self.layers[0]
        assert isinstance(conv, nn.Conv2d)
        if self.grid.height * self.grid.width == 1:
            return  # a single row determines nothing
        above, beside = (int(side) for side in conv.padding)
        padded = F.pad(resized(mean, self.size), (beside, beside, above, above))
        seen = F.unfold(padded, conv.kernel_size, stride=conv.stride)[0].T  # (places, values seen)
        seen = (seen - seen.mean(0)).double()
        wanted = maps.mean(0).flatten(1).T.double()  # (places, channels)
        gram = seen.T @ seen
        ridge = torch.diag_embed((_RIDGE * gram.diagonal().mean().clamp_min(1e-12)).expand(len(gram)))
        weight = torch.linalg.solve(gram + ridge, seen.T @ (wanted - wanted.mean(0)))
        conv.weight.copy_(weight.T.reshape(conv.weight.shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.grid.smashed(self.layers(resized(x, self.size)))


def rectified(observed: Tensor) -> bool:
    """Whether features look as if a rectifier had made them: never negative, sometimes nothing."""
    return bool((observed >= 0).all()) and bool((observed == 0).any())


def _window(tile: int, side: int) -> tuple[int, int]:
    """How far a place looks and how much of that is padding.

    One place for the whole image sees all of it; of many, each sees half a neighbour on either side and a little more.
    """
    return (tile, 0) if tile == side else (2 * tile + 3, tile + 1)


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.change = nn.Sequential(
            nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        changed: Tensor = self.change(x)
        return x + changed
