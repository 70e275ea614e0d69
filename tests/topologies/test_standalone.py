from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from splitbench.core.defense import Defense
from splitbench.core.wire import Wire
from splitbench.topologies.standalone import Standalone
from tests.topologies._small import RATE, batch, gradients, network, orders, samples, scene, state, whole


def test_each_client_descends_its_own_loss_and_nothing_crosses():
    wire, split = Wire(record=True), scene(Standalone(), 2)
    value = split.step(wire)
    apart = [whole(network(), batch(i)) for i in range(2)]
    assert value == pytest.approx((apart[0][0] + apart[1][0]) / 2, abs=1e-12)
    for index, (_, grads, _) in enumerate(apart):
        assert_close(gradients(split.client(index).stages[0]), grads, rtol=0, atol=1e-12)
    assert not wire.traffic
    assert not wire.transcript


def test_a_training_is_one_of_each_client_by_itself():
    split = scene(Standalone(), sizes=[7, 10, 5], epochs=3)
    split.train()
    for index, size in enumerate(split.plan.sizes):
        oracle = network()
        descent = torch.optim.SGD(oracle.parameters(), lr=RATE)
        x, y = samples(index, size)
        for epoch in orders(Standalone(), split.plan, index):
            for rows in epoch:
                descent.zero_grad()
                F.cross_entropy(oracle(x[rows]), y[rows]).backward()
                descent.step()
        assert_close(state(split.client(index).stages), dict(oracle.state_dict()), rtol=0, atol=1e-12)


def test_inputs_and_gradients_of_a_defense_apply():
    class Halved(Defense):
        def inputs(self, batch, generator):
            return replace(batch, x=batch.x / 2)

        def gradients(self, stage, generator):
            for parameter in stage.parameters():
                parameter.grad.mul_(10)

    net, oracle = network(), network()
    scene(Standalone(), 1, net, Halved()).step()
    (10 * F.cross_entropy(oracle(batch().x / 2), batch().y)).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-11)
