from __future__ import annotations

import pytest
import torch
from _small import lay_out, network
from torch.testing import assert_close

from splitbench.core.party import SERVER, client
from splitbench.core.wire import Wire
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.splitfed import SplitFed

SHARES = [0.2, 0.3, 0.5]


def apart(clients=3):
    """Clients whose weights, statistics and counts have all moved apart."""
    models = lay_out(SplitFed(), network(), clients)
    for index, model in enumerate(models):
        model.joined(torch.rand(4, 2, 8, 8, dtype=torch.float64) + index)
        for _ in range(index):
            model.joined(torch.rand(4, 2, 8, 8, dtype=torch.float64))
        with torch.no_grad():
            for parameter in model.stages[0].parameters():
                parameter.add_(index)
    return models


def states(models):
    return [{k: v.clone() for k, v in m.stages[0].state_dict().items()} for m in models]


def test_after_a_round_every_client_has_the_mean_weighted_by_data():
    models = apart()
    before = states(models)
    upper = {k: v.clone() for k, v in models[0].stages[1].state_dict().items()}
    SplitFed().close_round(models, Wire(), 7, SHARES)
    for after in states(models):
        for name, value in after.items():
            if value.is_floating_point():
                mean = 0.2 * before[0][name] + 0.3 * before[1][name] + 0.5 * before[2][name]
                assert_close(value, mean, rtol=0, atol=1e-12)
    assert_close(dict(models[0].stages[1].state_dict()), upper, rtol=0, atol=0)


def test_a_count_becomes_the_largest_count():
    models = apart()
    SplitFed().close_round(models, Wire(), 7, SHARES)
    assert {int(state["norm.num_batches_tracked"]) for state in states(models)} == {3}


def test_clients_stay_apart_as_objects():
    models = apart()
    SplitFed().close_round(models, Wire(), 7, SHARES)
    with torch.no_grad():
        next(models[0].stages[0].parameters()).zero_()
    assert next(models[1].stages[0].parameters()).any()


def test_averaging_costs_the_weights_of_every_client_up_and_down():
    wire = Wire(round=2)
    SplitFed().close_round(apart(), wire, 7, SHARES)
    size = (2 * 4 * 9 + 4 + 4 * 4) * 8 + 8
    assert dict(wire.traffic) == {
        (2, "client", "server", "weights"): 3 * size,
        (2, "server", "client", "weights"): 3 * size,
    }


def test_all_weights_go_up_before_any_come_down():
    wire = Wire(record=True)
    SplitFed().close_round(apart(2), wire, 7, [0.5, 0.5])
    ways = list(dict.fromkeys((m.sender, m.receiver) for m in wire.transcript))
    assert ways == [(client(0), SERVER), (client(1), SERVER), (SERVER, client(0)), (SERVER, client(1))]


def test_a_tampering_server_decides_what_the_clients_get():
    models = apart(2)
    wire = Wire(tamper=lambda m: m.carrying(torch.zeros_like(m.tensor)))
    SplitFed().close_round(models, wire, 7, [0.5, 0.5])
    assert not any(value.any() for state in states(models) for value in state.values())


def test_a_client_alone_is_left_as_it_was():
    models = apart(1)
    before = states(models)
    SplitFed().close_round(models, Wire(), 7, [1.0])
    assert_close(states(models), before, rtol=0, atol=0)


@pytest.mark.parametrize("clients", [1, 3])
def test_parallel_alone_averages_nothing(clients):
    models = apart(clients)
    before = states(models)
    wire = Wire()
    Parallel().close_round(models, wire, 7, SHARES[:clients])
    assert_close(states(models), before, rtol=0, atol=0)
    assert not wire.traffic
