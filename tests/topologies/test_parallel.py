"""Parallel split learning against equations 3 and 11 written out, client by client, in one graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from _small import CLASSES, batch, gradients, lay_out, network, whole
from torch.testing import assert_close

from splitbench.core.defense import Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.party import MIXER, SERVER, client
from splitbench.core.wire import Wire
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.splitfed import SplitFed
from splitbench.topologies.u_shaped import UShaped
from splitbench.topologies.vanilla import Vanilla

SHARES = [0.5, 0.2, 0.3]
LOWER = ("first", "norm")


class Pairs(Defense):
    """Mixup of clients 0 and 1 and of 2 and 3, and so on; an odd one is left out."""

    mixes = True

    def __init__(self, ratio: float = 0.3) -> None:
        self.ratio = ratio

    def mix(self, smashed, labels, generator):
        def pair(messages, tensors):
            members = list(zip(messages[::2], messages[1::2], strict=False))
            mixed = [self.ratio * tensors[a.sender] + (1 - self.ratio) * tensors[b.sender] for a, b in members]
            return [replace(a, tensor=t, share=a.share + b.share) for (a, b), t in zip(members, mixed, strict=True)]

        one_hot = {m.sender: F.one_hot(m.tensor, CLASSES).double() for m in labels}
        return pair(smashed, {m.sender: m.tensor for m in smashed}), pair(labels, one_hot)


def exchange(models, batches, wire, shares):
    return Parallel().exchange(models, batches, wire, F.cross_entropy, 0, shares)


def lower(names):
    return {name: value for name, value in names.items() if name.startswith(LOWER)}


def upper(names):
    return {name: value for name, value in names.items() if not name.startswith(LOWER)}


def test_the_server_descends_the_weighted_sum_and_each_client_its_own_loss():
    net = network()
    batches = [batch(i) for i in range(3)]
    apart = [whole(net, own) for own in batches]
    models = lay_out(Parallel(), net, 3)
    value = exchange(models, batches, Wire(), SHARES)
    assert value == pytest.approx(sum(d * loss for d, (loss, _, _) in zip(SHARES, apart, strict=True)), abs=1e-12)
    for model, (_, grads, _) in zip(models, apart, strict=True):
        assert_close(gradients(model.stages[0]), lower(grads), rtol=0, atol=1e-12)
    expected = {
        name: sum(d * grads[name] for d, (_, grads, _) in zip(SHARES, apart, strict=True))
        for name in upper(apart[0][1])
    }
    assert_close(gradients(models[0].stages[1]), expected, rtol=0, atol=1e-12)


def test_shares_are_taken_among_those_who_take_part():
    net = network()
    models = lay_out(Parallel(), net, 3)
    value = exchange(models, [batch(0), batch(2)], Wire(), SHARES)
    losses = [whole(network(), batch(i))[0] for i in (0, 2)]
    assert value == pytest.approx((0.5 * losses[0] + 0.3 * losses[1]) / 0.8, abs=1e-12)
    assert not gradients(models[1].stages[0])


def test_clients_of_unequal_batches_keep_their_own_means():
    batches = [batch(0, size=3), batch(1, size=7)]
    value = exchange(lay_out(Parallel(), network(), 2), batches, Wire(), [0.5, 0.5])
    assert value == pytest.approx(sum(whole(network(), own)[0] for own in batches) / 2, abs=1e-12)


def test_groups_weigh_what_their_members_do_and_clients_learn_through_the_mixer():
    shares = [0.1, 0.2, 0.3, 0.4]
    net = network()
    models = lay_out(Parallel(), net, 4)
    value = exchange(models, [batch(i) for i in range(4)], Wire(Pairs()), shares)

    oracle = lay_out(Parallel(), network(), 4)
    z = [model.stages[0](batch(i).x) for i, model in enumerate(oracle)]
    y = [F.one_hot(batch(i).y, CLASSES).double() for i in range(4)]
    top = oracle[0].stages[1]
    losses = [F.cross_entropy(top(0.3 * z[a] + 0.7 * z[b]), 0.3 * y[a] + 0.7 * y[b]) for a, b in ((0, 1), (2, 3))]
    weighted = 0.3 * losses[0] + 0.7 * losses[1]
    mine = torch.autograd.grad(weighted, list(top.parameters()), retain_graph=True)
    assert value == pytest.approx(weighted.item(), abs=1e-12)
    assert_close([p.grad for p in models[0].stages[1].parameters()], list(mine), rtol=0, atol=1e-12)
    (losses[0] + losses[1]).backward()  # each client's layers are in one of the two
    for model, other in zip(models, oracle, strict=True):
        assert_close(gradients(model.stages[0]), gradients(other.stages[0]), rtol=0, atol=1e-12)


def test_with_a_mixer_the_server_meets_no_client():
    wire = Wire(Pairs(), record=True)
    exchange(lay_out(Parallel(), network(), 2), [batch(0), batch(1)], wire, [0.5, 0.5])
    assert [(m.kind, m.sender, m.receiver) for m in wire.transcript] == [
        ("smashed", client(0), MIXER),
        ("label", client(0), MIXER),
        ("smashed", client(1), MIXER),
        ("label", client(1), MIXER),
        ("smashed", MIXER, SERVER),
        ("label", MIXER, SERVER),
        ("gradient", SERVER, MIXER),
        ("gradient", MIXER, client(0)),
        ("gradient", MIXER, client(1)),
    ]
    assert wire.bytes(sender="mixer", kind="label") == 6 * CLASSES * 8


def test_a_client_the_mixer_left_out_does_not_learn():
    wire = Wire(Pairs(), record=True)
    models = lay_out(Parallel(), network(), 3)
    exchange(models, [batch(i) for i in range(3)], wire, SHARES)
    assert gradients(models[1].stages[0])
    assert not gradients(models[2].stages[0])
    assert client(2) not in [m.receiver for m in wire.transcript]


@pytest.mark.parametrize("topology", [Vanilla(), UShaped()])
def test_a_mixing_defense_is_refused_where_clients_do_not_meet(topology):
    with pytest.raises(SplitbenchError, match="use parallel or splitfed"):
        topology.exchange(lay_out(topology, network()), [batch()], Wire(Pairs()), F.cross_entropy, 0, [1.0])


def test_splitfed_exchanges_as_parallel_does():
    nets = network(), network()
    for topology, net in zip((Parallel(), SplitFed()), nets, strict=True):
        topology.exchange(lay_out(topology, net, 2), [batch(0), batch(1)], Wire(), F.cross_entropy, 0, [0.4, 0.6])
    assert_close(gradients(nets[0]), gradients(nets[1]), rtol=0, atol=0)
