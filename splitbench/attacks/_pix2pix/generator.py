"""The U-Net of pix2pix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._pix2pix.laying import Laid

_DEEPEST = 8  # halvings at most: 256 pixels to one
_NOISY = 3  # of the innermost layers on the way up have dropout
_WIDEST = 8  # times the width of the outermost layer


class UNet(nn.Module):
    """Down by halves to a single place and up again, each layer on the way up beside its twin on the way down."""

    def __init__(self, laid: Laid, channels: int, told: int, width: int, dropout: float) -> None:
        """From what is laid out in `told` channels to images of `channels`, begun from torch's global generator."""
        super().__init__()
        self.laid = laid
        # A side that is a power of two halves to one exactly; smaller images are framed.
        depth = min(_DEEPEST, max(1, (max(laid.size) - 1).bit_length()))
        wide = [width * min(_WIDEST, 2**level) for level in range(depth)]
        self.side = 2**depth * max(1, -(-max(laid.size) // 2**depth))
        self.down = nn.ModuleList(
            _down(wide[level - 1] if level else told, wide[level], first=level == 0, last=level == depth - 1)
            for level in range(depth)
        )
        # But for the innermost, each sees what the one below it made beside what its twin made on the way down.
        self.up = nn.ModuleList(
            _up(
                wide[level] * (1 if level == depth - 1 else 2),
                wide[level - 1] if level else channels,
                dropout if depth - level <= _NOISY else 0.0,
                last=level == 0,
            )
            for level in reversed(range(depth))
        )
        self.apply(started)

    def forward(self, z: Tensor) -> Tensor:
        """Images (N, C, H, W) in [-1, 1]."""
        h = framed(self.laid(z), self.side)
        passed: list[Tensor] = []
        for layer in self.down:
            h = layer(h)
            passed.append(h)
        h = passed.pop()
        for layer in self.up:
            h = layer(h)
            if passed:
                h = torch.cat((h, passed.pop()), 1)
        height, width = self.laid.size
        return torch.tanh(h)[..., :height, :width]


def framed(x: Tensor, side: int) -> Tensor:
    """Squares of this side, with zeros to the right and below."""
    return F.pad(x, (0, side - x.shape[-1], 0, side - x.shape[-2]))


def _down(channels: int, width: int, first: bool, last: bool) -> nn.Sequential:
    """The last is not normalised: a single place has no variance to divide by."""
    layers: list[nn.Module] = [] if first else [nn.LeakyReLU(0.2)]
    layers.append(nn.Conv2d(channels, width, 4, 2, 1))
    return nn.Sequential(*layers, *([] if first or last else [nn.BatchNorm2d(width)]))


def _up(channels: int, width: int, dropout: float, last: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.ReLU(), nn.ConvTranspose2d(channels, width, 4, 2, 1)]
    if not last:
        layers += [nn.BatchNorm2d(width), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers)


def started(layer: nn.Module) -> None:
    """As pix2pix starts: weights small, scales about one."""
    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) and layer.kernel_size != (1, 1):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)
