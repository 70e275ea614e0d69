"""Parallel split learning as equations 1 to 3 have it: whole networks in one graph, without messages or parties."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from splitbench.core.member import Plan
from splitbench.core.topology import Topology
from tests.topologies._small import BOTTOM, RATE, network, orders, samples


def trained_by_hand(topology: Topology, plan: Plan, average: bool = False) -> list[tuple[nn.Module, nn.Module]]:
    """Each client's layers with the server's: client i descends L_i, the server sum_i d_i L_i with d_i its share."""
    whole = network()
    bottoms = [copy.deepcopy(whole[:BOTTOM]) for _ in plan.sizes]
    top = whole[BOTTOM:]
    top[0].inplace = False
    data = [samples(index, size) for index, size in enumerate(plan.sizes)]
    rows = [orders(topology, plan, index) for index in range(len(plan.sizes))]
    shares = [size / sum(plan.sizes) for size in plan.sizes]
    for epoch in range(plan.epochs):
        for step in zip(*(own[epoch] for own in rows), strict=True):
            losses = [
                F.cross_entropy(top(bottom(x[own])), y[own])
                for bottom, (x, y), own in zip(bottoms, data, step, strict=True)
            ]
            mine = list(top.parameters())
            total = sum(share * loss for share, loss in zip(shares, losses, strict=True))
            above = torch.autograd.grad(total, mine, retain_graph=True)
            below = [
                torch.autograd.grad(loss, list(bottom.parameters()), retain_graph=True)
                for loss, bottom in zip(losses, bottoms, strict=True)
            ]
            with torch.no_grad():
                for parameter, slope in zip(mine, above, strict=True):
                    parameter -= RATE * slope
                for bottom, slopes in zip(bottoms, below, strict=True):
                    for parameter, slope in zip(bottom.parameters(), slopes, strict=True):
                        parameter -= RATE * slope
        if average:
            _average(bottoms, shares)
    return [(bottom, top) for bottom in bottoms]


@torch.no_grad()
def _average(bottoms: list[nn.Module], shares: list[float]) -> None:
    for same in zip(*(bottom.state_dict().values() for bottom in bottoms), strict=True):
        counts = not same[0].is_floating_point()
        mean = max(same) if counts else sum(share * value for share, value in zip(shares, same, strict=True))
        for value in same:
            value.copy_(mean)
