from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from splitbench.core.party import SERVER, client
from splitbench.core.schedule import together
from splitbench.core.wire import Wire
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.splitfed import SplitFed
from tests.topologies._parallel_by_hand import trained_by_hand
from tests.topologies._small import scene, state

SIZES = (2, 3, 5)  # shares of 0.2, 0.3 and 0.5


def apart(sizes=SIZES, topology=None):
    """Clients whose weights, statistics and counts have all moved apart."""
    split = scene(topology or SplitFed(), sizes=sizes)
    for index, model in enumerate(split.models):
        for turn in range(index + 1):
            model.joined(torch.rand(4, 2, 8, 8, dtype=torch.float64) + index * (turn == 0))
        with torch.no_grad():
            for parameter in model.stages[0].parameters():
                parameter.add_(index)
    return split


def close(split, wire=None):
    """What happens after an epoch."""
    topology, members, plan = split.topology, split.members, split.plan
    programs = {party: topology.close_client(members[party]) for party in plan.clients}
    together({**programs, SERVER: topology.close_server(members[SERVER], plan)}, wire or Wire())


def states(split):
    return [state(split.client(index).stages) for index in range(len(split.plan.sizes))]


def test_after_an_epoch_every_client_has_the_mean_weighted_by_data():
    split = apart()
    before, server = states(split), state(split.members[SERVER].stages)
    close(split)
    for after in states(split):
        for name, value in after.items():
            if value.is_floating_point():
                mean = 0.2 * before[0][name] + 0.3 * before[1][name] + 0.5 * before[2][name]
                assert_close(value, mean, rtol=0, atol=1e-12)
    assert_close(state(split.members[SERVER].stages), server, rtol=0, atol=0)


def test_a_count_becomes_the_largest_count():
    split = apart()
    close(split)
    assert {int(after["norm.num_batches_tracked"]) for after in states(split)} == {3}


def test_clients_stay_apart_as_objects():
    split = apart()
    close(split)
    with torch.no_grad():
        next(split.client(0).stages[0].parameters()).zero_()
    assert next(split.client(1).stages[0].parameters()).any()


def test_averaging_costs_the_weights_of_every_client_up_and_down():
    wire, split = Wire(), apart()
    for member in split.members.values():
        member.epoch = 2
    close(split, wire)
    size = (2 * 4 * 9 + 4 + 4 * 4) * 8 + 8
    up = {(2, client(index), SERVER, "weights"): size for index in range(3)}
    down = {(2, SERVER, client(index), "weights"): size for index in range(3)}
    assert dict(wire.traffic) == up | down


def test_all_weights_go_up_before_any_come_down():
    wire = Wire(record=True)
    close(apart((5, 5)), wire)
    ways = list(dict.fromkeys((m.sender, m.receiver) for m in wire.transcript))
    assert ways == [(client(0), SERVER), (client(1), SERVER), (SERVER, client(0)), (SERVER, client(1))]


def test_a_tampering_server_decides_what_the_clients_get():
    split = apart((5, 5))
    close(split, Wire(tamper=lambda m: m.carrying(torch.zeros_like(m.tensor))))
    assert not any(value.any() for after in states(split) for value in after.values())


def test_a_client_alone_is_left_as_it_was():
    split = apart((5,))
    before = states(split)
    close(split)
    assert_close(states(split), before, rtol=0, atol=0)


@pytest.mark.parametrize("sizes", [(5,), SIZES])
def test_parallel_alone_averages_nothing(sizes):
    split, wire = apart(sizes, Parallel()), Wire()
    before = states(split)
    close(split, wire)
    assert_close(states(split), before, rtol=0, atol=0)
    assert not wire.traffic


def test_a_whole_training_equals_the_averaging_of_uncut_networks_written_out():
    split = scene(SplitFed(), sizes=[9, 4, 6], epochs=3)
    split.train()
    by_hand = trained_by_hand(SplitFed(), split.plan, average=True)
    for model, stages in zip(split.models, by_hand, strict=True):
        for mine, theirs in zip(model.stages, stages, strict=True):
            ours, expected = list(mine.state_dict().values()), list(theirs.state_dict().values())
            assert_close(ours, expected, rtol=0, atol=1e-12)
