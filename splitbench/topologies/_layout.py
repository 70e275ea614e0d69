"""Whose stages are one object, and whose are copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from splitbench.core.party import client
from splitbench.core.split import SplitModel


def handed_round(model: SplitModel, clients: int) -> tuple[SplitModel, ...]:
    """All clients use the same stages, one after the other."""
    return _each(model, clients, lambda stage: stage)


def one_each(model: SplitModel, clients: int) -> tuple[SplitModel, ...]:
    """Every client has stages of its own, with equal weights to begin with; the server's are shared."""
    return _each(model, clients, copy.deepcopy)


def _each(model: SplitModel, clients: int, own: Callable[[nn.Module], nn.Module]) -> tuple[SplitModel, ...]:
    laid_out = []
    for index in range(clients):
        pairs = list(zip(model.stages, model.owners, strict=True))
        mine = [owner.role == "client" for _, owner in pairs]
        stages = tuple(
            own(stage) if here and index > 0 else stage for (stage, _), here in zip(pairs, mine, strict=True)
        )
        owners = tuple(client(index) if here else owner for (_, owner), here in zip(pairs, mine, strict=True))
        laid_out.append(replace(model, stages=stages, owners=owners))
    return tuple(laid_out)
