"""A network that cannot be cut where one wants says why."""

from __future__ import annotations

import copy

import pytest
import torch
from _small_models import batch_for, model, shape_for
from torch import Tensor, nn
from torch.nn import functional as F

from splitbench.core.errors import SplitbenchError
from splitbench.core.split import cut, output_shape


class Three(nn.Module):
    """Three linear layers; the tests differ in what happens between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.between(self.second(self.first(x))))

    def between(self, x: Tensor) -> Tensor:
        return x


class Dropping(Three):
    def between(self, x: Tensor) -> Tensor:
        return F.dropout(x, training=self.training)


class Branching(Three):
    def between(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Counting(Three):
    def between(self, x: Tensor) -> Tensor:
        return x * len(x)


class Returning(Three):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.first(x)
        return self.third(h), self.second(h)


class Tied(Three):
    def __init__(self) -> None:
        super().__init__()
        self.third.weight = self.first.weight


class Repeating(Three):
    def between(self, x: Tensor) -> Tensor:
        return self.second(x)


class Optional(Three):
    def forward(self, x: Tensor, mask: Tensor | None = None, scale: int = 2, mode: str = "plain") -> Tensor:
        h = self.first(x)
        if mask is not None:
            h = h * mask
        return self.third(h) * scale


def refusal(network: nn.Module, *after: str) -> str:
    with pytest.raises(SplitbenchError) as caught:
        cut(network, after)
    return str(caught.value)


def test_an_unknown_cut_gets_the_nearest_name() -> None:
    chosen = model("resnet18")
    network = chosen.build(shape_for(chosen), 5)
    with pytest.raises(SplitbenchError, match=r"no cut named 'layr3'; did you mean 'layer3'\?"):
        chosen.split(network, ("layr3",))
    assert "no submodule named 'frist' to cut after; did you mean 'first'?" in refusal(Three(), "frist")


def test_any_submodule_may_be_named_beside_the_papers_words() -> None:
    chosen = model("resnet18")
    network = chosen.build(shape_for(chosen), 5).eval()
    x = batch_for(chosen).float()
    torch.testing.assert_close(chosen.split(network, ("layer2.0",)).joined(x), network(x))


def test_a_cut_inside_a_skip_connection_is_refused() -> None:
    chosen = model("resnet18")
    network = chosen.build(shape_for(chosen), 5)
    with pytest.raises(SplitbenchError, match=r"cannot cut after 'layer1\.0\.conv1': something flows around it"):
        chosen.split(network, ("layer1.0.conv1",))


def test_a_forward_that_decides_by_training_is_refused() -> None:
    assert "Dropping.forward decides by self.training" in refusal(Dropping(), "first")


@pytest.mark.parametrize("network", [Branching(), Counting()], ids=["by value", "by length"])
def test_a_forward_that_cannot_be_followed_is_refused(network: nn.Module) -> None:
    assert "its forward cannot be followed" in refusal(network, "first")


def test_a_parameter_used_on_both_sides_is_refused() -> None:
    message = refusal(Tied(), "first")
    assert "both sides of the cut use third.weight" in message
    assert cut(Tied(), ["third"])  # one side only


def test_a_layer_used_twice_is_refused() -> None:
    assert "cannot cut after 'second': the network uses it 2 times, not once" in refusal(Repeating(), "second")


def test_cuts_out_of_order_or_repeated_are_refused() -> None:
    for pair in (("second", "first"), ("first", "first")):
        assert "in the order data flows, each once" in refusal(Three(), *pair)


def test_a_network_that_returns_several_things_is_refused() -> None:
    assert "Returning returns several things" in refusal(Returning(), "first")


def test_a_pair_that_would_cross_a_cut_is_refused_when_it_first_runs() -> None:
    chosen = model("pit_tiny")
    client = chosen.split(chosen.build(shape_for(chosen), 5), ("transformers.0",)).stages[0]
    with pytest.raises(SplitbenchError, match=r"cannot cut after 'transformers\.0': it returns a tuple"):
        output_shape(client, shape_for(chosen), torch.float32)


def test_options_of_a_forward_keep_their_defaults() -> None:
    network = Optional()
    x = torch.rand(2, 4)
    client, server = cut(network, ["first"])
    torch.testing.assert_close(server(client(x)), network(x))


def test_stages_can_be_copied_and_the_copies_are_independent() -> None:
    chosen = model("vit_tiny")
    network = chosen.build(shape_for(chosen), 5)
    client = chosen.split(network, ("block1",)).stages[0].eval()
    x = batch_for(chosen).float()
    before = client(x)
    twin = copy.deepcopy(client)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(client(x), before)
    assert not torch.equal(twin(x), before)
