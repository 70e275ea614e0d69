"""Clients that take turns with one server, each beginning with the weights of the one before."""

from __future__ import annotations

from typing import ClassVar

from splitbench.core.member import Client, Plan, Server
from splitbench.core.party import client
from splitbench.core.schedule import Program
from splitbench.topologies._programs.batches import count
from splitbench.topologies._programs.once_each import OnceEach
from splitbench.topologies._programs.weights import hand_on, take_over


class InTurn(OnceEach):
    """A turn is a pass over all of a client's data. After the last turn everybody is given the last weights."""

    together: ClassVar[bool] = True

    def client(self, me: Client, plan: Plan) -> Program:
        assert me.load is not None
        first, last = me.party.index == 0, me.party.index == len(plan.sizes) - 1
        before, after = client(me.party.index - 1), client(me.party.index + 1)
        end = plan.clients[-1]
        for epoch in me.epochs(plan):
            if not first:
                yield from take_over(me, before)
            elif epoch and not last:
                yield from take_over(me, end)
            for rows in self.rows(me.size, plan, me.streams.of("order")):
                yield from self.exchange(me, me.load(rows))
            if not last:
                yield from hand_on(me, after)
            elif epoch + 1 < plan.epochs and not first:
                yield from hand_on(me, client(0))
        if not last:
            yield from take_over(me, end)
        else:
            for other in plan.clients[:-1]:
                yield from hand_on(me, other)

    def server(self, me: Server, plan: Plan) -> Program:
        for _ in me.epochs(plan):
            for party in plan.clients:
                for _ in range(count(plan.sizes[party.index], plan.batch)):
                    yield from self.answer(me, [party])
