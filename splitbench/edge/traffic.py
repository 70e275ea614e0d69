"""Bytes up and down: what the wire counts when the topology's own exchange runs, without numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from splitbench.core.party import client
from splitbench.core.randomness import generator, seeded
from splitbench.core.topology import Batch
from splitbench.core.wire import Wire
from splitbench.edge.case import Case, Scene
from splitbench.edge.trace import Numberless
from splitbench.runner.train import task_loss


@dataclass(frozen=True)
class Traffic:
    """Bytes that clients sent (`up`) and that the server sent them (`down`)."""

    up: int
    down: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.up + other.up, self.down + other.down)


@dataclass(frozen=True)
class Volumes:
    step: Traffic  # a full batch of one client
    round: Traffic  # one client's pass over its samples, with the weights that it hands on or has averaged
    epoch: Traffic  # all clients' passes
    training: Traffic  # all epochs; the first client of the first epoch is handed nothing


def volumes(case: Case, scene: Scene, step: Traffic) -> Volumes:
    """Of a training. Steps alike are run once."""
    if case.work == "inference":
        whole, rest = divmod(case.sizes[0], case.batch)
        each = Traffic(_part(step.up, rest, case.batch), _part(step.down, rest, case.batch))
        once = Traffic(step.up * whole, step.down * whole) + each
        return Volumes(step, once, *[Traffic(once.up * case.clients, once.down * case.clients)] * 2)
    known: dict[tuple[object, ...], Traffic] = {}
    epochs: list[Traffic] = []
    first: Traffic = Traffic(0, 0)
    speaker: int | None = None
    order = torch.Generator().manual_seed(0)
    closing = _closing(scene)
    for epoch in range(min(2, case.training.epochs)):
        total = Traffic(0, 0)
        for taking_part in scene.topology.steps(case.sizes, case.batch, order):
            who = [index for index, _ in taking_part]
            handed = len(who) == 1 and speaker not in (None, who[0])
            key = (tuple(len(rows) for _, rows in taking_part), handed)
            if key not in known:
                known[key] = _exchanged(case, scene, [len(rows) for _, rows in taking_part], handed)
            total += known[key]
            if epoch == 0 and 0 in who:
                first += Traffic(known[key].up // len(who), known[key].down // len(who))
            speaker = who[-1]
        epochs.append(total + closing)
    first += Traffic(closing.up // case.clients, closing.down // case.clients)
    later = epochs[-1]
    rest = case.training.epochs - 1
    training = Traffic(epochs[0].up + rest * later.up, epochs[0].down + rest * later.down)
    # In the steady state every client is handed its weights and hands them on.
    one = Traffic(later.up // case.clients, later.down // case.clients) if case.clients > 1 else first
    return Volumes(step, one, later, training)


def _part(size: int, rest: int, batch: int) -> int:
    return size * rest // batch


def _exchanged(case: Case, scene: Scene, sizes: list[int], handed: bool) -> Traffic:
    wire = Wire(scene.defense, generator(0, "profile"))
    wire.speaker = client(1) if handed else None
    batches = [Batch(i, *scene.batch(size), torch.arange(size)) for i, size in enumerate(sizes)]
    for model in scene.models:
        model.train()
    shares = [1 / len(scene.models)] * len(scene.models)
    with seeded(0, "profile"), Numberless(), torch.enable_grad():
        scene.topology.exchange(scene.models, batches, wire, task_loss(case.task), 0, shares)
    for model in scene.models:
        for part in model.stages:
            part.zero_grad(set_to_none=True)
    return counted(wire)


def _closing(scene: Scene) -> Traffic:
    wire = Wire(scene.defense)
    with Numberless(), torch.no_grad():
        scene.topology.close_round(scene.models, wire, 0, [1.0] * len(scene.models))
    return counted(wire)


def counted(wire: Wire) -> Traffic:
    """What clients send each other is sent by one of them, and so goes up."""
    down = sum(size for (_, sender, to, _), size in wire.traffic.items() if to == "client" and sender != "client")
    return Traffic(wire.bytes(sender="client"), down)
