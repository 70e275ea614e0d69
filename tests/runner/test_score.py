"""Utility is that of all clients, each through its own defense."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Generator

from splitbench.core.defense import Defense
from splitbench.core.message import Message
from splitbench.plan import components
from splitbench.runner import api, execute
from splitbench.runner.prepare import prepare
from splitbench.runner.score import every_metric, utility
from splitbench.store.store import Store
from tests.runner._small import cells


class Counting(Defense):
    """Counts what each client sends."""

    def __init__(self) -> None:
        self.sent: Counter[int] = Counter()

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        self.sent[message.sender.index] += len(message.tensor)
        return message


@pytest.mark.parametrize("clients", [1, 3])
def test_every_client_answers_its_share_of_the_test_split_through_its_own_defense(clients: int) -> None:
    prepared = prepare(cells(clients=clients)[0].run)
    own = [Counting() for _ in range(clients)]
    for party, counting in zip(prepared.plan.clients, own, strict=True):
        prepared.members[party].defense = counting
    utility(prepared, every_metric())
    count = len(prepared.data.test)
    assert [counting.sent for counting in own] == [{i: len(range(i, count, clients))} for i in range(clients)]


def test_what_is_asked_of_three_clients_of_one_network_is_what_one_would_answer() -> None:
    alone, together = (prepare(cells(clients=clients)[0].run) for clients in (1, 3))
    for mine, theirs in zip(alone.models[0].stages, together.models[0].stages, strict=True):
        theirs.load_state_dict(mine.state_dict())
    one, three = ({s.metric: s.value for s in utility(p, every_metric())} for p in (alone, together))
    assert one == pytest.approx(three, abs=1e-6)
    assert torch.isfinite(torch.tensor(list(one.values()))).all()


def test_a_score_says_with_which_settings_it_was_made():
    """Two settings of one metric are two numbers, and must not pass for one another in a store."""

    def version(spec):
        part, mistakes = components.resolve("metrics", spec, "metric")
        assert part is not None, mistakes
        return components.scored_as(part)

    assert version("position_accuracy") == version({"position_accuracy": {"patch": 8}}) == "1"
    assert version({"position_accuracy": {"patch": 16}}) == "1(patch=16)"
    assert version({"patch_ssim": {"patch": 4}}) == "wang2004(patch=4)"


def test_a_stored_row_is_scored_anew_where_a_metric_is_asked_for_with_other_settings(tmp_path):
    how = {"data": "fashion_mnist_mini", "model": "lenet5", "cut": "conv1", "training": {"epochs": 1, "batch": 32},
           "samples": {"private": 64, "auxiliary": 16, "evaluation": 4}, "attacks": ["mean_image"]}  # fmt: skip
    found = []
    for patch in (7, 14):
        planned = api.planned({**how, "metrics": [{"position_accuracy": {"patch": patch}}]}, "smoke")
        finished = execute.run(planned.cells, Store(tmp_path), planned.metrics)[-1]
        found.append({s.metric: s.version for s in finished.outcome.scores}["position_accuracy"])
    assert found == ["1(patch=7)", "1(patch=14)"]
