"""The parties of a run: a network's stages dealt out to those who own them, each with a defense of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from splitbench.core.defense import Context, Defense
from splitbench.core.member import Batch, Client, Loss, Member, Mixer, Plan, Server
from splitbench.core.party import MIXER, SERVER, Party, client
from splitbench.core.randomness import Streams, derive
from splitbench.core.schedule import Program
from splitbench.core.split import SplitModel
from splitbench.core.topology import Topology

Members = dict[Party, Member]


def assemble(
    model: SplitModel,
    plan: Plan,
    defense: Defense,
    context: Context,
    seed: int,
    loss: Loss,
    protected: int | None = None,
    precision: torch.dtype = torch.float32,
) -> tuple[Members, Plan]:
    """Every party of a run with these clients, in the order in which they begin, and the plan that all of them know.

    Clients begin with equal weights, each with layers of its own.
    """
    mixes = defense.mixes
    members: Members = {}
    for party in plan.clients:
        guarded = protected is None or party.index < protected
        own = replace(context, client=party.index, secret=derive(context.secret, party.index))
        members[party] = Client(
            party,
            _stages(model, "client", copies=party.index > 0),
            # A mixer needs the parts of everybody, so that nobody can stay out of a defense that mixes.
            defense.bind(own) if guarded or mixes else Defense(),
            Streams(seed, party),
            loss,
            precision=precision,
            size=plan.sizes[party.index],
            share=plan.share(party),
            above=MIXER if mixes else SERVER,
        )
    if mixes:
        members[MIXER] = Mixer(MIXER, [], defense.bind(context), Streams(seed, MIXER), loss)
    members[SERVER] = Server(
        SERVER, _stages(model, "server"), Defense(), Streams(seed, SERVER), loss, precision=precision
    )
    first = members[client(0)]
    known = replace(
        plan,
        groups=defense.groups(len(plan.sizes)) if mixes else 0,
        weights=sum(len(stage.state_dict()) for stage in first.stages),
    )
    return members, known


def _stages(model: SplitModel, role: str, copies: bool = False) -> list[nn.Module]:
    mine = model.owned_by(role)
    return [copy.deepcopy(stage) for stage in mine] if copies else mine


def programs(topology: Topology, members: Mapping[Party, Member], plan: Plan) -> dict[Party, Program]:
    """The whole training, as each party runs it."""
    made: dict[Party, Program] = {}
    for party, member in members.items():
        if isinstance(member, Client):
            made[party] = topology.client(member, plan)
        elif isinstance(member, Mixer):
            made[party] = topology.mixer(member, plan)
        elif isinstance(member, Server):
            made[party] = topology.server(member, plan)
    return made


def networks(owners: tuple[Party, ...], members: Mapping[Party, Member]) -> tuple[SplitModel, ...]:
    """The network of each client: its own stages and the server's, in the order data flows."""
    made = []
    for party, member in members.items():
        if party.role != "client":
            continue
        waiting = {"client": iter(member.stages), "server": iter(members[SERVER].stages)}
        stages = tuple(next(waiting[owner.role]) for owner in owners)
        made.append(SplitModel(stages, tuple(party if owner.role == "client" else owner for owner in owners)))
    return tuple(made)


def one_step(
    topology: Topology, members: Mapping[Party, Member], plan: Plan, batches: Mapping[Party, Batch]
) -> dict[Party, Program]:
    """One exchange of these clients, each with its batch."""
    made: dict[Party, Program] = {}
    for party, batch in batches.items():
        me = members[party]
        assert isinstance(me, Client)
        made[party] = topology.exchange(me, batch)
    senders = list(batches)
    if plan.groups:
        mixer = members[MIXER]
        assert isinstance(mixer, Mixer)
        made[MIXER] = topology.mix(mixer, senders)
        senders = [MIXER] * plan.groups
    server = members[SERVER]
    assert isinstance(server, Server)
    made[SERVER] = topology.answer(server, senders)
    return made
