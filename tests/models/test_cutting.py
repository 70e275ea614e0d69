"""Cutting a network changes nothing: the oracle is the network uncut."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
import torch
from _small_models import batch_for, model, network_for
from torch import Tensor, nn

from splitbench.core.model import Model
from splitbench.core.randomness import seeded
from splitbench.core.registry import load, names

NAMES = names("models")
HEAVY = {"minilm", "roberta_base"}  # their width is not a setting; roberta_small has the same code
CLASSES = 5


@dataclass
class Pass:
    """What one forward and backward pass leaves behind."""

    output: Tensor
    gradients: dict[str, Tensor] = field(default_factory=dict)
    buffers: dict[str, Tensor] = field(default_factory=dict)


def built(chosen: Model) -> nn.Module:
    with seeded(0, "build"):
        network = network_for(chosen, CLASSES).double()
        # Layers that start at zero (the last batch norm of a residual block) would hide what is behind them.
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return network


def whole(network: nn.Module, x: Tensor) -> Pass:
    return _measured(network, lambda: _backward([network], x))


def in_stages(network: nn.Module, chosen: Model, places: tuple[str, ...], x: Tensor) -> Pass:
    split = chosen.split(network, places)
    assert len(split.stages) == len(places) + 1
    split.train(network.training)
    return _measured(network, lambda: _backward(list(split.stages), x))


def _backward(stages: list[nn.Module], x: Tensor) -> Tensor:
    """Every stage by itself, as parties work: what crosses a cut is a leaf on the other side."""
    sent, received, copies = [], [x], []
    for stage in stages:
        sent.append(stage(received[-1]))
        received.append(sent[-1].detach().requires_grad_())
        copies.append(sent[-1].detach().clone())
    for ours, passed in zip(copies, received[1:], strict=True):
        assert torch.equal(ours, passed), "the receiver wrote into what was sent"
    weights = torch.linspace(-1, 1, sent[-1].numel(), dtype=torch.float64).view_as(sent[-1])
    gradient = weights * sent[-1].detach()
    for smashed, leaf in zip(reversed(sent), reversed(received[:-1]), strict=True):
        smashed.backward(gradient)
        gradient = leaf.grad
    return sent[-1].detach()


def _measured(network: nn.Module, run) -> Pass:
    before = copy.deepcopy(network.state_dict())
    network.zero_grad(set_to_none=True)
    with seeded(0, "dropout"):
        output = run()
    done = Pass(output)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, f"{name} had no part in the output"
        done.gradients[name] = parameter.grad.clone()
    done.buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    network.load_state_dict(before)
    return done


def assert_same(ours: Pass, oracle: Pass) -> None:
    close = {"rtol": 1e-6, "atol": 1e-9}
    torch.testing.assert_close(ours.output, oracle.output, **close)
    torch.testing.assert_close(ours.gradients, oracle.gradients, **close)
    torch.testing.assert_close(ours.buffers, oracle.buffers, **close)
    assert max(gradient.abs().max() for gradient in oracle.gradients.values()) > 1e-6


def check(chosen: Model, training: bool, cuts: list[str]) -> None:
    check_at(chosen, training, [*((place,) for place in cuts), (cuts[0], cuts[-1])])


def check_at(chosen: Model, training: bool, places: list[tuple[str, ...]]) -> None:
    network, x = built(chosen).train(training), batch_for(chosen)
    oracle = whole(network, x)
    for each in places:
        assert_same(in_stages(network, chosen, each, x), oracle)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluating"])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in HEAVY])
def test_every_cut_leaves_outputs_gradients_and_statistics_as_they_were(name: str, training: bool) -> None:
    chosen = model(name)
    check(chosen, training, list(chosen.cuts))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HEAVY))
def test_every_cut_of_a_heavy_model_leaves_everything_as_it_was(name: str) -> None:
    chosen = model(name)
    check(chosen, True, list(chosen.cuts))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_middle_and_last_cut_of_the_full_size_leave_everything_as_it_was(name: str) -> None:
    chosen = load("models", name)(**({"weights": "none"} if name == "minilm" else {}))
    cuts = list(chosen.cuts)
    check_at(chosen, True, [(cuts[0], cuts[-1]), (cuts[len(cuts) // 2],)])
