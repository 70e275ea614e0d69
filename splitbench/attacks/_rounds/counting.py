"""Which patches belong to which image, by how often they were in its row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor

_SURE = 0.5  # of the second nearest: a patch nearer than that to its nearest needs no assignment
_SWEEPS = 4  # over all rounds, to name their rows


def gathered(rounds: Tensor, rows_known: bool = True) -> Tensor:
    """(B, L, P): in each row its image's patches, as means over all rounds (R, B, L, P), in any order.

    Where rows are not known to be the same image's in each round, they are those of the first.
    """
    count, places = rounds.shape[1:3]
    patches = rounds.flatten(1, 2)  # (R, T, P)
    row = F.one_hot(torch.arange(count, device=patches.device).repeat_interleave(places), count).float()
    total, seen = patches[0].clone(), [row]  # where each patch of the first round was, (T, B), round by round
    for number, other in enumerate(patches[1:], 1):
        # Against the mean so far, which is clearer than any one round.
        match = matched(total / number, other)
        total += other[match]
        seen.append(row[match])
    counts = torch.stack(seen).sum(0) if rows_known else _named(seen)
    return (total / len(patches))[belonging(counts, places)]


def _named(seen: list[Tensor]) -> Tensor:
    """Counts (T, B) where rows have other names in each round: each round is named by what the others agree on."""
    counts = seen[0].clone()
    added = [torch.zeros_like(counts) for _ in seen]
    for _ in range(_SWEEPS):
        for number, there in enumerate(seen[1:], 1):
            counts -= added[number]
            added[number] = there[:, _assigned(counts.T @ there)]
            counts += added[number]
    return counts


def matched(patches: Tensor, others: Tensor) -> Tensor:
    """For each patch (T, P) the number of the other one (T, P) that it is, so that all together are nearest."""
    gaps = torch.cdist(patches, others)
    two = gaps.topk(min(2, len(gaps)), 1, largest=False)
    nearest, back = two.indices[:, 0], gaps.argmin(0)
    own = torch.arange(len(patches), device=patches.device)
    sure = (back[nearest] == own) & (two.values[:, 0] < _SURE * two.values[:, -1])
    found = torch.where(sure, nearest, -1)
    # What is left is small enough for an assignment that looks at all of it.
    left = own[~sure]
    free = torch.ones_like(sure)
    free[nearest[sure]] = False
    if len(left):
        rest = own[free]
        found[left] = rest[_assigned(-gaps[left][:, rest])]
    return found


def belonging(counts: Tensor, places: int) -> Tensor:
    """(B, places): the patches of each row, by counts (T, B) that are the largest together."""
    # The copies of a row are equal, so that the order within a row says nothing.
    slot = _assigned(counts.repeat_interleave(places, 1).T)
    return slot.view(-1, places)


def _assigned(liking: Tensor) -> Tensor:
    """For each row of the matrix its column, so that the sum is the largest."""
    columns = linear_sum_assignment(liking.double().cpu().numpy(), maximize=True)[1]
    return torch.from_numpy(columns).to(liking.device)
