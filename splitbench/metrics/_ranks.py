"""The Mann-Whitney statistic."""

from __future__ import annotations

import torch
from torch import Tensor


def chance_of_higher(these: Tensor, those: Tensor) -> Tensor:
    """How likely one of these scores is above one of those; a tie counts half, a NaN makes it NaN."""
    if these.isnan().any() or those.isnan().any():
        return torch.tensor(torch.nan, dtype=torch.float64)
    those = those.sort().values
    below, up_to = torch.searchsorted(those, these), torch.searchsorted(those, these, right=True)
    return (below + up_to).double().sum() / (2 * len(these) * len(those))
