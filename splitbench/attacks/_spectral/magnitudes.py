"""How strong each frequency usually is: where crops belong if symmetry cannot tell, and which way round they lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from splitbench.attacks._spectral.crops import Crops
from splitbench.attacks._spectral.symmetry import assigned

_SPREAD = 0.05  # of a logarithm, at least: a frequency that was always zero is not known to be so for ever
_FAINT = 1e-6  # of the mean energy: what counts as nothing
_ROUNDS = 8


def loudness(z: Tensor) -> Tensor:
    """Of complex crops (N, L, C, p, q) the logarithms of their energies, (N, L, D)."""
    energy = z.abs().square().flatten(2)
    return (energy + _FAINT * energy.mean((1, 2), keepdim=True).clamp(min=1e-30)).log()


@dataclass(frozen=True)
class Magnitudes:
    """For each place the normal distribution of each of its log-magnitudes, (L, D)."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, z: Tensor) -> Magnitudes:
        """From crops (N, L, C, p, q) that lie where they belong."""
        known = loudness(z)
        return cls(known.mean(0), known.var(0, correction=0) + _SPREAD**2)

    def arranged(self, z: Tensor) -> Tensor:
        """(N, L): the likeliest token of each place, all together, of crops (N, L, C, p, q) in any order."""
        heard, weight = loudness(z), 1 / self.variance
        # The square of a difference as a product; what depends on the token alone changes no assignment.
        unlike = heard.square() @ weight.T - 2 * heard @ (self.mean * weight).T  # (N, T, L)
        level = (self.mean.square() * weight + self.variance.log()).sum(1)
        return assigned(-(unlike + level).transpose(1, 2))

    def unlikely(self, z: Tensor) -> Tensor:
        """(N,): how unlikely crops (N, L, C, p, q) are as they lie, in nats but for a constant."""
        return ((loudness(z) - self.mean).square() / self.variance + self.variance.log()).sum((1, 2)) / 2


def smoothest(tokens: Tensor, crops: Crops) -> Tensor:
    """Spectral tokens (N, L, D) shifted so that their images are the smoothest."""
    rows, columns = (torch.arange(side, device=tokens.device) / side - (side // 2) / side for side in crops.shape[1:])
    steep = rows.square()[:, None] + columns.square()
    energy = crops.spectra(tokens).abs().square().sum(1)
    by = [(a * crops.height, b * crops.width) for a, b in crops.shifts]
    rough = torch.stack([(energy.roll(step, (1, 2)) * steep).sum((1, 2)) for step in by])
    return _chosen(tokens, rough.argmin(0), crops)


def likened(tokens: Tensor, crops: Crops) -> Tensor:
    """Spectral tokens (N, L, D) of many images, each shifted so that it is loud where the others are.

    A shift that all of them have in common stays open.
    """
    heard = loudness(crops.complex(tokens))
    usual = heard[:1]
    chosen = torch.full((len(tokens),), -1, device=tokens.device)
    for _ in range(_ROUNDS):
        gaps = [(crops.shifted(heard, by) - usual).square().mean((1, 2)) for by in crops.shifts]
        found = torch.stack(gaps).argmin(0)
        if torch.equal(found, chosen):
            break
        chosen, usual = found, _chosen(heard, found, crops).mean(0, keepdim=True)
    return _chosen(tokens, chosen, crops)


def _chosen(tokens: Tensor, which: Tensor, crops: Crops) -> Tensor:
    """Each by the shift that was found for it."""
    moved = tokens.clone()
    for number, by in enumerate(crops.shifts):
        rows = which == number
        moved[rows] = crops.shifted(tokens[rows], by)
    return moved


def placed(tokens: Tensor, order: Tensor) -> Tensor:
    """For each place (N, L) the token (N, T, D) of which the order says that it belongs there."""
    return tokens.gather(1, order[..., None].expand(-1, -1, tokens.shape[-1]))
