"""Clients that pass over their own samples once per epoch, each at its own pace."""

from __future__ import annotations

from torch import Generator, Tensor

from splitbench.core.member import Plan
from splitbench.core.party import SERVER, Party
from splitbench.core.topology import Topology
from splitbench.topologies._programs.batches import count, once


class OnceEach(Topology):
    """The server, where there is one, takes part in the steps of all."""

    def rows(self, size: int, plan: Plan, generator: Generator) -> list[Tensor]:
        return once(size, plan, generator)

    def steps(self, plan: Plan, party: Party = SERVER) -> int:
        mine = plan.sizes if party == SERVER else [plan.sizes[party.index]]
        return sum(count(size, plan.batch) for size in mine)
