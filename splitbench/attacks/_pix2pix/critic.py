"""The PatchGAN of pix2pix."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from splitbench.attacks._pix2pix.generator import framed, started
from splitbench.attacks._pix2pix.laying import Laid

_LEAST = 32  # pixels a side, below which nothing would be left to judge


class PatchGAN(nn.Module):
    """Whether each patch of 70 x 70 pixels is real, seen beside what the image is made from."""

    def __init__(self, laid: Laid, channels: int, told: int, width: int) -> None:
        super().__init__()
        self.laid = laid
        self.side = max(_LEAST, *laid.size)
        layers: list[nn.Module] = []
        seen = channels + told
        for level, (wide, stride) in enumerate(((width, 2), (2 * width, 2), (4 * width, 2), (8 * width, 1))):
            layers.append(nn.Conv2d(seen, wide, 4, stride, 1))
            if level:
                layers.append(nn.BatchNorm2d(wide))
            layers.append(nn.LeakyReLU(0.2))
            seen = wide
        self.judge = nn.Sequential(*layers, nn.Conv2d(seen, 1, 4, 1, 1))
        self.apply(started)

    def forward(self, z: Tensor, image: Tensor) -> Tensor:
        """Logits (N, 1, h, w) for images in [-1, 1]."""
        judged: Tensor = self.judge(framed(torch.cat((self.laid(z), image), 1), self.side))
        return judged
