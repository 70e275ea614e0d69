"""Everything passes the wire: what a party can reach, and what it can have learned of the others."""

from __future__ import annotations

from inspect import getclosurevars

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from splitbench.core.defense import Defense
from splitbench.core.party import MIXER, SERVER, client
from splitbench.core.schedule import together
from splitbench.core.topology import Topology
from splitbench.core.wire import Wire
from splitbench.runner.parties import programs
from tests.core._reach import reachable, tensors
from tests.topologies._small import Descent, Pairs, Scene, every_topology, label, samples, scene

each = pytest.mark.parametrize("topology", every_topology(), ids=label)


def private(split: Scene, party) -> list[torch.Tensor]:
    """What belongs to a party: its weights, and a client's samples."""
    member = split.members[party]
    own = [tensor for stage in member.stages for tensor in (*stage.parameters(), *stage.buffers())]
    return own + ([getclosurevars(split.client(party.index).load).nonlocals["x"]] if party.role == "client" else [])


def memory(found: list[torch.Tensor]) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in found if tensor.numel()} - {0}


@pytest.mark.parametrize(
    ("topology", "defense"),
    [(t, Defense()) for t in every_topology()] + [(t, Pairs()) for t in every_topology() if t.simultaneous],
    ids=label,
)
def test_no_program_reaches_the_weights_samples_or_random_numbers_of_another_party(topology: Topology, defense):
    split = scene(topology, 2, defense=defense, sizes=(4, 3), epochs=2)
    for member in split.members.values():
        if member.stages:
            member.learner = Descent(member.stages)
    started = programs(split.topology, split.members, split.plan)
    looked = 0

    def look(message) -> None:
        nonlocal looked
        looked += 1
        owned = {party: private(split, party) for party in started}
        for party, program in started.items():
            found = list(reachable(program, split.members[party]))
            held = [thing for thing in found if isinstance(thing, torch.Tensor)]
            modules = {id(thing) for thing in found if isinstance(thing, nn.Module)}
            generators = {id(thing) for thing in found if isinstance(thing, torch.Generator)}
            for other in started:
                if other == party:
                    continue
                theirs = split.members[other]
                assert not {id(t) for t in held} & {id(t) for t in owned[other]}, (party, other)
                assert not memory(held) & memory(owned[other]), (party, other)
                assert not modules & {id(module) for stage in theirs.stages for module in stage.modules()}
                assert not generators & {id(one) for one in reachable(theirs.streams)}
                assert not any(thing is theirs or thing is theirs.defense for thing in found)

    together(started, Wire(listeners=[look]), split.at_work)
    assert bool(looked) == bool(topology.cuts)


def test_the_walk_would_have_found_what_it_looks_for():
    split = scene(every_topology()[0], 2)
    me = split.client(0)
    x, _ = samples(0, 6)
    weight = me.stages[0].get_parameter("first.weight")
    assert any(t is weight for t in tensors(split.topology.client(me, split.plan)))
    assert any(t.shape == x.shape and torch.equal(t, x) for t in tensors(me))
    assert any(t is weight for t in tensors(me.stages[0](x) * 2)), "by way of the graph"


@each
def test_no_graph_crosses_and_only_the_receiver_may_differentiate_by_what_arrived(topology: Topology):
    class Watching(Wire):
        def carry(self, message):
            arrived = super().carry(message)
            assert arrived.tensor.grad_fn is None
            assert arrived.tensor.is_leaf
            assert arrived.tensor is not message.tensor
            wants = arrived.kind == "smashed" and arrived.tensor.is_floating_point()
            assert arrived.tensor.requires_grad == wants
            return arrived

    heard = []
    wire = Watching(record=True, listeners=[heard.append])
    scene(topology, 2).train(wire)
    for message in (*wire.transcript, *heard):
        assert not message.tensor.requires_grad
        assert message.tensor.grad_fn is None


def test_with_a_mixer_no_graph_crosses_either():
    split, wire = scene(every_topology()[0], 2, defense=Pairs()), Wire(record=True)
    assert split.plan.groups == 1
    split.train(wire)
    assert {m.receiver for m in wire.transcript} == {client(0), client(1), MIXER, SERVER}
    assert not any(m.tensor.requires_grad or m.tensor.grad_fn is not None for m in wire.transcript)


@each
def test_a_transcript_is_all_that_a_party_learned_of_the_others(topology: Topology):
    """Replay a client against a recording of what it was sent: it ends with the same weights."""
    split, wire = scene(topology, 2, epochs=2), Wire(record=True)
    split.train(wire)
    letters = {}
    for message in wire.transcript:
        if message.receiver == client(1):
            letters.setdefault((message.sender, message.kind, message.cut), []).append(message.tensor)
    again = scene(topology, 2, epochs=2)
    me = again.client(1)
    me.learner = Descent(me.stages)
    program, answer, sent = topology.client(me, again.plan), None, []
    with me.at_work():
        while True:
            try:
                wish = program.send(answer)
            except StopIteration:
                break
            answer = None
            if hasattr(wish, "message"):
                sent.append(wish.message.tensor.detach().clone())
            else:
                tensor = letters[wish.sender, wish.kind, wish.cut].pop(0).clone()
                if wish.kind == "smashed":
                    tensor.requires_grad_()
                answer = next(m for m in wire.transcript if m.receiver == client(1)).carrying(tensor)
    expected = [m.tensor for m in wire.transcript if m.sender == client(1)]
    assert_close(sent, expected, rtol=0, atol=0)
    ours = [t for stage in me.stages for t in stage.state_dict().values()]
    theirs = [t for stage in split.client(1).stages for t in stage.state_dict().values()]
    assert_close(ours, theirs, rtol=0, atol=0)
