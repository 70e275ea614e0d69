"""Parallel split learning against equations 1 to 3 written out, client by client, in one graph."""

from __future__ import annotations

import pytest
from torch.testing import assert_close

from splitbench.core.member import Plan
from splitbench.core.party import SERVER, client
from splitbench.core.schedule import together
from splitbench.core.wire import Wire
from splitbench.runner.parties import one_step
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.splitfed import SplitFed
from tests.topologies._parallel_by_hand import trained_by_hand
from tests.topologies._small import batch, gradients, network, scene, whole

SIZES = (5, 2, 3)
SHARES = [0.5, 0.2, 0.3]
LOWER = ("first", "norm")


def lower(names):
    return {name: value for name, value in names.items() if name.startswith(LOWER)}


def upper(names):
    return {name: value for name, value in names.items() if not name.startswith(LOWER)}


def test_the_server_descends_the_weighted_sum_and_each_client_its_own_loss():
    net = network()
    apart = [whole(net, batch(i)) for i in range(3)]
    split = scene(Parallel(), net=net, sizes=SIZES)
    value = split.step()
    assert value == pytest.approx(sum(d * loss for d, (loss, _, _) in zip(SHARES, apart, strict=True)), abs=1e-12)
    for index, (_, grads, _) in enumerate(apart):
        assert_close(gradients(split.client(index).stages[0]), lower(grads), rtol=0, atol=1e-12)
    expected = {
        name: sum(d * grads[name] for d, (_, grads, _) in zip(SHARES, apart, strict=True))
        for name in upper(apart[0][1])
    }
    assert_close(gradients(split.members[SERVER].stages[0]), expected, rtol=0, atol=1e-12)


def test_shares_are_taken_among_those_who_take_part():
    split = scene(Parallel(), sizes=SIZES)
    value = split.step(batches={client(i): batch(i) for i in (0, 2)})
    losses = [whole(network(), batch(i))[0] for i in (0, 2)]
    assert value == pytest.approx((0.5 * losses[0] + 0.3 * losses[1]) / 0.8, abs=1e-12)
    assert not gradients(split.client(1).stages[0])


def test_clients_of_unequal_batches_keep_their_own_means():
    batches = [batch(0, size=3), batch(1, size=7)]
    value = scene(Parallel(), 2).step(batches=dict(zip([client(0), client(1)], batches, strict=True)))
    assert value == pytest.approx(sum(whole(network(), own)[0] for own in batches) / 2, abs=1e-12)


@pytest.mark.parametrize("sizes", [(6, 6), (9, 4, 6), (3, 11)])
def test_a_whole_training_of_unequal_clients_equals_the_equations(sizes):
    split = scene(Parallel(), sizes=sizes, epochs=3)
    split.train()
    by_hand = trained_by_hand(Parallel(), Plan(sizes, 4, 3))
    for model, stages in zip(split.models, by_hand, strict=True):
        for mine, theirs in zip(model.stages, stages, strict=True):
            ours, expected = list(mine.state_dict().values()), list(theirs.state_dict().values())
            assert_close(ours, expected, rtol=0, atol=1e-12)


def test_what_comes_first_at_the_server_changes_nothing():
    def run(backwards: bool):
        split = scene(Parallel(), sizes=SIZES)
        steps = one_step(split.topology, split.members, split.plan, {client(i): batch(i) for i in range(3)})
        order = list(reversed(steps)) if backwards else list(steps)
        together({party: steps[party] for party in order}, Wire(), split.at_work)
        return [gradients(stage) for member in split.members.values() for stage in member.stages]

    assert_close(run(True), run(False), rtol=0, atol=0)


def test_splitfed_exchanges_as_parallel_does():
    nets = network(), network()
    for topology, net in zip((Parallel(), SplitFed()), nets, strict=True):
        scene(topology, net=net, sizes=(4, 6)).step()
    assert_close(gradients(nets[0]), gradients(nets[1]), rtol=0, atol=0)


def test_without_a_mixer_everybody_sends_to_the_server():
    wire, split = Wire(record=True), scene(Parallel(), 2)
    split.step(wire)
    assert [(m.kind, m.sender, m.receiver) for m in wire.transcript] == [
        ("smashed", client(0), SERVER),
        ("label", client(0), SERVER),
        ("smashed", client(1), SERVER),
        ("label", client(1), SERVER),
        ("gradient", SERVER, client(0)),
        ("gradient", SERVER, client(1)),
    ]
