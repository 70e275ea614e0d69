"""Clients that speak in the same step, and a server that passes over all of it at once."""

from __future__ import annotations

from typing import ClassVar

from torch import Generator, Tensor

from splitbench.core.member import Client, Mixer, Plan, Server
from splitbench.core.party import MIXER, SERVER, Party
from splitbench.core.schedule import Program
from splitbench.core.topology import Topology
from splitbench.topologies._programs.batches import count, until_the_longest_is_done


class InUnison(Topology):
    """Every client in every step, with equally many samples, until the largest has shown each of its own once."""

    simultaneous: ClassVar[bool] = True

    def rows(self, size: int, plan: Plan, generator: Generator) -> list[Tensor]:
        return until_the_longest_is_done(size, plan, generator)

    def steps(self, plan: Plan, party: Party = SERVER) -> int:
        return count(max(plan.sizes), plan.batch)

    def client(self, me: Client, plan: Plan) -> Program:
        assert me.load is not None
        for _ in me.epochs(plan):
            for rows in self.rows(me.size, plan, me.streams.of("order")):
                yield from self.exchange(me, me.load(rows))
            yield from self.close_client(me)

    def server(self, me: Server, plan: Plan) -> Program:
        clients = plan.clients
        senders = [MIXER] * plan.groups if plan.groups else clients
        for _ in me.epochs(plan):
            for _ in range(self.steps(plan)):
                yield from self.answer(me, senders)
            yield from self.close_server(me, plan)

    def mixer(self, me: Mixer, plan: Plan) -> Program:
        for _ in me.epochs(plan):
            for _ in range(self.steps(plan)):
                yield from self.mix(me, plan.clients)

    def close_client(self, me: Client) -> Program:
        """After each epoch (federated averaging, say)."""
        yield from ()

    def close_server(self, me: Server, plan: Plan) -> Program:
        yield from ()
