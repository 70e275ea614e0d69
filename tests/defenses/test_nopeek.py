from __future__ import annotations

import torch
from torch import nn

from splitbench.core.component import validated
from splitbench.defenses._penalties.distance_correlation import distance_correlation
from splitbench.defenses.nopeek import NoPeek


def test_the_penalty_is_the_weighted_distance_correlation():
    x, z = torch.rand(8, 1, 4, 4), torch.rand(8, 3, 4, 4)
    assert torch.equal(NoPeek(weight=2.5).penalty(x, z), 2.5 * distance_correlation(x, z))


def test_weight_zero_costs_nothing():
    assert NoPeek(weight=0).penalty(torch.rand(8, 3), torch.rand(8, 3)) is None


def test_descending_the_penalty_makes_the_smashed_data_tell_less():
    torch.manual_seed(0)
    x = torch.rand(32, 6)
    client = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(client.parameters(), lr=0.02)
    before = distance_correlation(x, client(x)).item()
    for _ in range(150):
        optimizer.zero_grad()
        NoPeek(weight=1.0).penalty(x, client(x)).backward()
        optimizer.step()
    after = distance_correlation(x, client(x)).item()
    assert before > 0.5
    assert after < before - 0.2


def test_a_negative_weight_is_a_mistake():
    _, mistakes = validated(NoPeek, {"weight": -1}, "")
    assert [m.where for m in mistakes] == ["weight"]
