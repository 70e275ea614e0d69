from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from splitbench.core.component import validated
from splitbench.defenses._penalties.distance_correlation import distance_correlation
from splitbench.defenses.dcor import DCOR
from splitbench.defenses.nopeek import NoPeek


def slopes(loss: torch.Tensor, *stages: nn.Module) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, [p for stage in stages for p in stage.parameters()], retain_graph=True))


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_its_gradients_are_those_of_the_convex_form_divided_by_the_tasks_share(weight):
    torch.manual_seed(0)
    client, server = nn.Linear(6, 4).double(), nn.Linear(4, 3).double()
    x, y = torch.rand(8, 6, dtype=torch.float64), torch.arange(8) % 3
    z = client(x)
    task = F.cross_entropy(server(z), y)
    form = (1 - weight) * task + weight * distance_correlation(x, z)
    ours = task + DCOR(weight=weight).penalty(x, z)
    for mine, theirs in zip(slopes(ours, client, server), slopes(form, client, server), strict=True):
        torch.testing.assert_close((1 - weight) * mine, theirs)


def test_it_is_nopeek_with_the_weight_the_docstring_tells():
    x, z = torch.rand(8, 1, 4, 4), torch.rand(8, 3, 4, 4)
    torch.testing.assert_close(DCOR(weight=0.8).penalty(x, z), NoPeek(weight=4.0).penalty(x, z))
    torch.testing.assert_close(DCOR().penalty(x, z), distance_correlation(x, z))


def test_weight_zero_costs_nothing():
    assert DCOR(weight=0).penalty(torch.rand(8, 3), torch.rand(8, 3)) is None


def test_tokens_can_be_penalised():
    tokens, z = torch.randint(50, (8, 5)), torch.rand(8, 5, 4, requires_grad=True)
    DCOR().penalty(tokens, z).backward()
    assert z.grad.abs().sum() > 0


@pytest.mark.parametrize("weight", [-0.1, 1, 2])
def test_a_weight_that_leaves_nothing_for_the_task_is_a_mistake(weight):
    _, mistakes = validated(DCOR, {"weight": weight}, "defenses[0]")
    assert [m.where for m in mistakes] == ["defenses[0].weight"]
