from __future__ import annotations

import pytest
import torch.nn.functional as F
from _small import batch, gradients, lay_out, network, whole
from torch.testing import assert_close

from splitbench.core.defense import Defense
from splitbench.core.wire import Wire
from splitbench.topologies.standalone import Standalone


def test_each_client_descends_its_own_loss_and_nothing_crosses():
    wire = Wire(record=True)
    models = lay_out(Standalone(), network(), 2)
    value = Standalone().exchange(models, [batch(0), batch(1)], wire, F.cross_entropy, 0, [0.25, 0.75])
    apart = [whole(network(), batch(i)) for i in range(2)]
    assert value == pytest.approx(0.25 * apart[0][0] + 0.75 * apart[1][0], abs=1e-12)
    for model, (_, grads, _) in zip(models, apart, strict=True):
        assert_close(gradients(model.stages[0]), grads, rtol=0, atol=1e-12)
    assert not wire.traffic
    assert not wire.transcript


def test_inputs_and_gradients_of_a_defense_apply():
    class Halved(Defense):
        def inputs(self, x, y, generator):
            return x / 2, y

        def gradients(self, stage, generator):
            for parameter in stage.parameters():
                parameter.grad.mul_(10)

    net, oracle = network(), network()
    Standalone().exchange(lay_out(Standalone(), net), [batch()], Wire(Halved()), F.cross_entropy, 0, [1.0])
    (10 * F.cross_entropy(oracle(batch().x / 2), batch().y)).backward()
    assert_close(gradients(net), gradients(oracle), rtol=0, atol=1e-11)
