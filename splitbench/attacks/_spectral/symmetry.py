"""Which crop of a real image's spectrum belongs where, from nothing but the crops.

The spectrum S of a real image is conjugate-symmetric, S(-k) = conj S(k). With an even number of rows, row k of the
centred spectrum mirrors row -k modulo their number, so that in a crop of p rows the first mirrors a first row, and the
others mirror, upside down, the others of another crop. The crop in row a and column b of an s x t grid is thus tied

    by its interior      to (s - 1 - a, t - 1 - b),
    by its first row     to (   -a    , t - 1 - b),
    by its first column  to (s - 1 - a,    -b    ),

and going from one to the next gives its neighbours: the interior of the second leads to (a - 1, b), that of the third
to (a, b - 1), both around the edge. What is left open is where to begin, which frequency zero says.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from splitbench.attacks._spectral.crops import Crops

_LARGE = 1024  # tokens beyond which an assignment takes seconds
_MANY = 4096  # and an image's beliefs gigabytes
_PREFERRED = 10.0  # how much likelier frequency zero is where symmetry says that it could be


def arranged(z: Tensor, crops: Crops, images: int = 1) -> Tensor:
    """(G, images, L): for each place of each image the token of the set (G, images * L, C, p, q) that belongs there.

    Up to the shifts that symmetry leaves open. Images come in no particular order.
    """
    tied = Ties.of(z)
    start = tied.beginnings(z, crops, images)
    order = tied.walked(start, crops)
    flat = order.flatten(1)
    broken = (flat.sort(1).values != torch.arange(flat.shape[1], device=z.device)).any(1)
    if broken.any() and z.shape[1] <= _MANY:
        order[broken] = Ties(*(tie[broken] for tie in tied.maps)).voted(start[broken], crops)
    return order


@dataclass(frozen=True)
class Ties:
    """For each crop of each set the one that its interior, its first row and its first column mirror, (G, T)."""

    interior: Tensor
    row: Tensor
    column: Tensor

    @classmethod
    def of(cls, z: Tensor) -> Ties:
        """Of sets of crops (G, T, C, p, q)."""
        parts = ((z[..., 1:, 1:], (-2, -1)), (z[..., :1, 1:], (-1,)), (z[..., 1:, :1], (-2,)))
        return cls(*(_mirrored(part, part.flip(axes).conj().resolve_conj()) for part, axes in parts))

    @property
    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.interior, self.row, self.column

    @property
    def up(self) -> Tensor:
        return self.interior.gather(1, self.row)

    @property
    def left(self) -> Tensor:
        return self.interior.gather(1, self.column)

    @property
    def down(self) -> Tensor:
        return self.row.gather(1, self.interior)

    @property
    def right(self) -> Tensor:
        return self.column.gather(1, self.interior)

    def beginnings(self, z: Tensor, crops: Crops, images: int) -> Tensor:
        """(G, images): of each image the crop with frequency zero, or another that mirrors itself in its corner."""
        _, _, u, v = crops.centre
        score = z[..., u, v].abs().square().sum(2)
        if crops.rows % 2 == crops.columns % 2 == 0:
            # Where -a = a and -b = b, the first row mirrors the crop to the left.
            score = score * torch.where(self.row == self.left, _PREFERRED, 1.0)
        if images == 1:
            return score.argmax(1, keepdim=True)
        # Crops of one image lead to each other; the least of them names the image.
        every = torch.arange(z.shape[1], device=z.device).expand(len(z), -1)
        image = self.walked(every, crops).amin(2)
        best = torch.zeros_like(score).scatter_reduce(1, image, score, "amax")
        return torch.where(score >= best.gather(1, image), score, -1.0).topk(images, 1).indices

    def walked(self, start: Tensor, crops: Crops) -> Tensor:
        """(G, K, L): what lies in each place, going right and down from these crops (G, K)."""
        a, b, _, _ = crops.centre
        right, down = self.right, self.down
        line = [start]
        for _ in range(crops.columns - 1):
            line.append(right.gather(1, line[-1]))
        rows = [torch.stack(line, -1)]  # (G, K, columns)
        for _ in range(crops.rows - 1):
            rows.append(down.gather(1, rows[-1].flatten(1)).view_as(rows[-1]))
        return torch.stack(rows, -2).roll((a, b), (-2, -1)).flatten(-2)

    def voted(self, start: Tensor, crops: Crops) -> Tensor:
        """The same where ties contradict each other: each place hears from all four sides what lies there."""
        a, b, _, _ = crops.centre
        count = self.interior.shape[1]
        known = F.one_hot(start, count).float()
        belief = torch.zeros(*start.shape, crops.rows, crops.columns, count, device=start.device)
        belief[:, :, a, b] = known
        sides = ((self.up, 1, -3), (self.down, -1, -3), (self.left, 1, -2), (self.right, -1, -2))
        for _ in range(crops.rows + crops.columns):
            heard = torch.zeros_like(belief)
            for tie, step, axis in sides:
                index = tie[:, None, None, None].expand_as(belief)
                heard += belief.roll(step, axis).gather(-1, index)
            belief = heard / heard.sum(-1, keepdim=True).clamp(min=1e-12)
            belief[:, :, a, b] = known
        return assigned(belief.flatten(1, 3)).view(*start.shape, -1)


def _mirrored(part: Tensor, other: Tensor) -> Tensor:
    """(G, T): the nearest; where two would have the same one, what is nearest for all together."""
    a, b = (torch.view_as_real(side).flatten(2) for side in (part, other))
    gaps = torch.cdist(a, b)
    nearest = gaps.argmin(2)
    clashing = (nearest.sort(1).values != torch.arange(nearest.shape[1], device=part.device)).any(1)
    if gaps.shape[1] <= _LARGE and clashing.any():
        nearest[clashing] = assigned(-gaps[clashing].square())
    return nearest


def assigned(liking: Tensor) -> Tensor:
    """(G, S): for each slot its token, so that the sum of the likings (G, S, T) is the largest."""
    # scipy's, a sequential algorithm for one matrix at a time.
    found = [linear_sum_assignment(one, maximize=True)[1] for one in liking.double().cpu().numpy()]
    return torch.stack([torch.from_numpy(tokens) for tokens in found]).to(liking.device)
