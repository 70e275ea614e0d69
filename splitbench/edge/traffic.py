"""Bytes up and down: what the wire counts when the topology's own exchange runs, without numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from splitbench.core.member import Batch, Client, Plan
from splitbench.core.party import Party
from splitbench.core.randomness import seeded
from splitbench.core.schedule import Program, together
from splitbench.core.wire import Wire
from splitbench.edge.case import Case, Scene
from splitbench.edge.trace import Numberless
from splitbench.runner.parties import one_step, programs


@dataclass(frozen=True)
class Traffic:
    """Bytes that clients sent (`up`) and that the server sent them (`down`)."""

    up: int
    down: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.up + other.up, self.down + other.down)

    def times(self, count: int) -> Traffic:
        return Traffic(self.up * count, self.down * count)


@dataclass(frozen=True)
class Volumes:
    step: Traffic  # a full batch of one client
    round: Traffic  # one client's pass over its samples, with the weights that it hands on or has averaged
    epoch: Traffic  # all clients' passes
    training: Traffic  # all epochs, with the weights that everybody has at the end


def volumes(case: Case, scene: Scene, step: Traffic) -> Volumes:
    """Of a training. Steps alike are run once, and what is handed on or averaged is counted on the shortest training
    there is: it does not depend on how many steps lie between."""
    if case.work == "inference":
        whole, rest = divmod(case.sizes[0], case.batch)
        each = Traffic(_part(step.up, rest, case.batch), _part(step.down, rest, case.batch))
        once = step.times(whole) + each
        return Volumes(step, once, *[once.times(case.clients)] * 2)
    plan, topology = Plan(tuple(case.sizes), case.batch, case.training.epochs), scene.topology
    order = torch.Generator().manual_seed(0)
    rows = {party: topology.rows(plan.sizes[party.index], plan, order) for party in plan.clients}
    steps: list[dict[Party, int]] = []
    if topology.simultaneous:
        steps = [{party: len(mine[at]) for party, mine in rows.items()} for at in range(topology.steps(plan))]
    else:
        steps = [{party: len(part)} for party, mine in rows.items() for part in mine]
    known: dict[tuple[int, ...], Traffic] = {}
    epoch = Traffic(0, 0)
    for sizes in steps:
        key = tuple(sizes.values())
        if key not in known:
            known[key] = _exchanged(scene, {Party("client", at): size for at, size in enumerate(key)})
        epoch += known[key]
    first, second = (_weights(scene, epochs) for epochs in (1, 2))
    more = Traffic(second.up - first.up, second.down - first.down)  # for each further epoch
    handed = Traffic(first.up + more.up * (plan.epochs - 1), first.down + more.down * (plan.epochs - 1))
    whole_epoch = epoch + (more if plan.epochs > 1 else first)
    one = Traffic(whole_epoch.up // case.clients, whole_epoch.down // case.clients)
    return Volumes(step, one, whole_epoch, epoch.times(plan.epochs) + handed)


def _part(size: int, rest: int, batch: int) -> int:
    return size * rest // batch


def _exchanged(scene: Scene, sizes: dict[Party, int]) -> Traffic:
    """One step of clients with so many samples each."""
    wire = Wire()
    batches = {party: scene.given(size, party) for party, size in sizes.items()}
    _run(scene, one_step(scene.topology, scene.members, scene.plan, batches), wire)
    return counted(wire)


def _weights(scene: Scene, epochs: int) -> Traffic:
    """The weights that pass in a training of so many epochs."""
    wire = Wire()
    plan = replace(scene.plan, sizes=(2,) * len(scene.plan.sizes), batch=2, epochs=epochs)
    members = {
        party: replace(m, size=2, losses=[], load=_loader(scene, party))
        if isinstance(m, Client)
        else replace(m, losses=[])
        for party, m in scene.members.items()
    }
    _run(scene, programs(scene.topology, members, plan), wire)
    wire.traffic = Counter({key: size for key, size in wire.traffic.items() if key[3] == "weights"})
    return counted(wire)


def _loader(scene: Scene, party: Party) -> Callable[[Tensor], Batch]:
    return lambda rows: scene.given(len(rows), party)


def _run(scene: Scene, made: dict[Party, Program], wire: Wire) -> None:
    for model in scene.models:
        model.train()
    with seeded(0, "profile"), Numberless(), torch.enable_grad():
        together(made, wire)
    for model in scene.models:
        for part in model.stages:
            part.zero_grad(set_to_none=True)


def counted(wire: Wire) -> Traffic:
    """What clients send each other is sent by one of them, and so goes up."""
    return Traffic(wire.up, wire.down)
