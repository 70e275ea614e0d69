"""A mixer between clients and server, against equations 7 to 11 written out in one graph."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from splitbench.core.defense import Composed, Defense
from splitbench.core.member import Client, Mixer
from splitbench.core.party import MIXER, SERVER, client
from splitbench.core.wire import Wire
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.splitfed import SplitFed
from tests.topologies._small import (
    BOTTOM,
    CLASSES,
    RATE,
    ROW,
    Pairs,
    batch,
    gradients,
    network,
    orders,
    samples,
    scene,
    state,
)

PAIRS = ((0, 1), (2, 3))
SMASHED = 6 * 4 * 8 * 8 * 8


def by_hand(ratio=0.3):
    """Four bottoms, one top, the pixels of batch i through bottom i, and the loss of each pair."""
    bottoms, top = [network()[:BOTTOM] for _ in range(4)], network()[BOTTOM:]
    top[0].inplace = False
    z = [bottom(batch(i).x) for i, bottom in enumerate(bottoms)]
    y = [F.one_hot(batch(i).y, CLASSES).double() for i in range(4)]
    mixed = [ratio * z[a] + (1 - ratio) * z[b] for a, b in PAIRS]
    soft = [ratio * y[a] + (1 - ratio) * y[b] for a, b in PAIRS]
    losses = [F.cross_entropy(top(one), target) for one, target in zip(mixed, soft, strict=True)]
    return bottoms, top, mixed, soft, losses


def test_groups_weigh_what_their_members_do_and_clients_learn_through_the_mixer():
    split = scene(Parallel(), sizes=(1, 2, 3, 4), defense=Pairs())
    value = split.step(Wire(), {client(i): batch(i) for i in range(4)})
    bottoms, top, _, _, losses = by_hand()
    weighted = 0.3 * losses[0] + 0.7 * losses[1]
    mine = torch.autograd.grad(weighted, list(top.parameters()), retain_graph=True)
    assert value == pytest.approx(weighted.item(), abs=1e-12)
    server = split.members[SERVER].stages[0]
    assert_close([p.grad for p in server.parameters()], list(mine), rtol=0, atol=1e-12)
    (losses[0] + losses[1]).backward()  # each client's layers are in one of the two
    for index, bottom in enumerate(bottoms):
        ours = [p.grad for p in split.client(index).stages[0].parameters()]
        assert_close(ours, [p.grad for p in bottom.parameters()], rtol=0, atol=1e-12)


def test_what_the_server_is_sent_are_the_mixtures_and_their_bookkeeping_names_the_members():
    wire = Wire(record=True)
    scene(Parallel(), 4, defense=Pairs()).step(wire)
    _, _, mixed, soft, _ = by_hand()
    for kind, expected in (("smashed", mixed), ("label", soft)):
        arrived = [m for m in wire.transcript if m.receiver == SERVER and m.kind == kind]
        assert_close([m.tensor for m in arrived], [one.detach() for one in expected], rtol=0, atol=1e-12)
        for message, (a, b) in zip(arrived, PAIRS, strict=True):
            assert message.about.mixes
            rows = torch.arange(6)
            assert message.about.samples.tolist() == torch.stack((rows + ROW * a, rows + ROW * b), 1).tolist()
            assert message.about.owners.tolist() == [[a, b]] * 6
            assert_close(message.about.shares.double(), torch.tensor([[0.3, 0.7]]).double().expand(6, 2))
            assert message.share == pytest.approx(0.5)
            assert message.seen().about is None
    returned = [m for m in wire.transcript if m.receiver.role == "client"]
    assert [m.about.owners.unique().tolist() for m in returned] == [[0], [1], [2], [3]]


def test_with_a_mixer_the_server_meets_no_client():
    wire = Wire(record=True)
    scene(Parallel(), 2, defense=Pairs()).step(wire)
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


def test_bytes_up_and_down_include_those_of_the_mixer():
    wire = Wire()
    scene(Parallel(), 2, defense=Pairs()).step(wire)
    assert wire.up == wire.bytes(sender="client", receiver="mixer") == 2 * (SMASHED + 6 * 8)
    assert wire.down == wire.bytes(sender="mixer", receiver="client") == 2 * SMASHED
    assert wire.bytes(sender="client", receiver="server") == wire.bytes(sender="server", receiver="client") == 0


def test_a_client_the_mixer_left_out_does_not_learn_and_is_not_kept_waiting():
    split = scene(Parallel(), 3, defense=Pairs(), epochs=1)
    before, wire = [state(split.client(i).stages) for i in range(3)], Wire(record=True)
    split.train(wire)
    moved = [
        {name for name, value in state(split.client(i).stages).items() if not torch.equal(value, before[i][name])}
        for i in range(3)
    ]
    assert [any(name.startswith("first") for name in names) for names in moved] == [True, True, False]
    answers = [m.tensor for m in wire.transcript if m.receiver == client(2)]
    assert answers
    assert not any(tensor.any() for tensor in answers)


def test_where_no_client_wants_a_gradient_none_is_sent_at_all():
    net, wire = network(), Wire()
    net[:BOTTOM].requires_grad_(False)
    scene(Parallel(), 2, net, Pairs()).step(wire)
    assert wire.bytes(kind="gradient") == 0
    assert net.second.weight.grad is not None


@pytest.mark.parametrize("topology", [Parallel(), SplitFed()])
def test_a_whole_training_with_a_mixer_equals_the_equations(topology):
    split = scene(topology, sizes=(9, 6), defense=Pairs(), epochs=3)
    split.train()
    bottoms, top = [network()[:BOTTOM] for _ in range(2)], network()[BOTTOM:]
    top[0].inplace = False
    rows = [orders(topology, split.plan, i) for i in range(2)]
    data = [samples(i, size) for i, size in enumerate((9, 6))]
    every = [*top.parameters(), *bottoms[0].parameters(), *bottoms[1].parameters()]
    descent = torch.optim.SGD(every, lr=RATE)
    for epoch in range(3):
        for a, b in zip(rows[0][epoch], rows[1][epoch], strict=True):
            z = 0.3 * bottoms[0](data[0][0][a]) + 0.7 * bottoms[1](data[1][0][b])
            y = [F.one_hot(labels[own], CLASSES) for (_, labels), own in zip(data, (a, b), strict=True)]
            descent.zero_grad()
            F.cross_entropy(top(z), 0.3 * y[0].double() + 0.7 * y[1].double()).backward()
            descent.step()
        if isinstance(topology, SplitFed):
            with torch.no_grad():
                for first, second in zip(*(bottom.state_dict().values() for bottom in bottoms), strict=True):
                    if first.is_floating_point():
                        mean = 0.6 * first + 0.4 * second
                        first.copy_(mean)
                        second.copy_(mean)
    for bottom, model in zip(bottoms, split.models, strict=True):
        for mine, theirs in zip(model.stages, (bottom, top), strict=True):
            ours, expected = list(mine.state_dict().values()), list(theirs.state_dict().values())
            assert_close(ours, expected, rtol=0, atol=1e-12)


def test_nobody_stays_out_of_a_defense_that_mixes():
    split = scene(Parallel(), 2, defense=Composed((Pairs(),)), protected=1)
    assert [type(split.client(index).defense) for index in range(2)] == [Composed, Composed]
    assert isinstance(split.members[MIXER], Mixer)
    assert all(m.above == MIXER for m in split.members.values() if isinstance(m, Client))
    assert split.plan.groups == 1


@dataclass(frozen=True)
class Halves(Defense):
    """The clients' messages become one: the mean of all."""

    mixes = True

    def groups(self, clients):
        return 1

    def mix(self, smashed, labels, generator):
        def mean(messages):
            tensor = torch.stack([m.tensor for m in messages]).mean(0)
            return [messages[0].carrying(tensor)]

        return mean(smashed), mean(labels)


def test_of_two_that_mix_the_second_mixes_the_mixtures_and_gradients_find_back_through_both():
    composed = Composed((Pairs(), Halves()))
    assert composed.groups(4) == 1
    split = scene(Parallel(), 4, defense=composed)
    split.step()
    bottoms, top, mixed, soft, _ = by_hand()
    F.cross_entropy(top((mixed[0] + mixed[1]) / 2), (soft[0] + soft[1]) / 2).backward()
    for index, bottom in enumerate(bottoms):
        ours = [p.grad for p in split.client(index).stages[0].parameters()]
        assert_close(ours, [p.grad for p in bottom.parameters()], rtol=0, atol=1e-12)


def test_a_mixer_draws_from_random_numbers_of_its_own():
    split = scene(Parallel(), 2, defense=Pairs(drawn=True), epochs=2)
    wire = Wire(record=True)
    split.train(wire)
    shares = [m.about.shares[0, 0].item() for m in wire.transcript if m.receiver == SERVER and m.kind == "smashed"]
    assert len(set(shares)) == len(shares) == 4
    draws = scene(Parallel(), 2, defense=Pairs(drawn=True)).members[MIXER].noise
    assert shares == [torch.rand((), generator=draws, dtype=torch.float64).item() for _ in range(4)]
    assert gradients(split.client(0).stages[0])
