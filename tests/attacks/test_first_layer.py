"""The quick way back to the input is the same gradient."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from splitbench.attacks._cloning import first_layer as _first_layer
from splitbench.attacks._cloning.first_layer import quickened
from splitbench.core.randomness import generator, seeded


def slopes(layer: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    weighted = (layer(x) * torch.linspace(-1, 1, layer(x).numel()).view_as(layer(x))).sum()
    return [*torch.autograd.grad(weighted, [x, *layer.parameters()]), layer(x).detach()]


@settings(max_examples=40, deadline=None)
@given(
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
    side=st.tuples(st.integers(8, 11), st.integers(8, 11)),
    last=st.booleans(),
)
def test_gradients_are_those_of_the_convolution(
    kernel: Any, stride: Any, padding: Any, dilation: int, bias: bool, side: Any, last: bool
) -> None:
    with seeded(0):
        plain = nn.Conv2d(1, 5, kernel, stride, padding, dilation, bias=bias).double()
    x = torch.rand(3, 1, *side, generator=generator(1)).double()
    if last:
        x = x.to(memory_format=torch.channels_last)
    quick = quickened(copy.deepcopy(plain))
    for mine, wanted in zip(slopes(quick, x), slopes(plain, x), strict=True):
        torch.testing.assert_close(mine, wanted)


def test_large_inputs_go_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_first_layer, "_MOST", 1)
    monkeypatch.setattr(_first_layer.F, "fold", None)
    with seeded(0):
        plain = nn.Conv2d(1, 4, 3)
    x = torch.rand(2, 1, 8, 8, generator=generator(1))
    for mine, wanted in zip(slopes(quickened(copy.deepcopy(plain)), x), slopes(plain, x), strict=True):
        torch.testing.assert_close(mine, wanted)


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(3, 4, 3), nn.Conv2d(1, 4, 3, padding="same"), nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"),
     nn.Linear(1, 4)],
    ids=["colours", "same", "reflect", "linear"],
)  # fmt: skip
def test_other_layers_are_left_alone(layer: nn.Module) -> None:
    assert "forward" not in vars(quickened(layer))
