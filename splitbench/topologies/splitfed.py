from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from splitbench.core.member import Client, Plan, Server
from splitbench.core.schedule import Program
from splitbench.topologies._programs.weights import average, averaged
from splitbench.topologies.parallel import Parallel


@dataclass(frozen=True)
class SplitFed(Parallel):
    """Parallel split learning whose clients' layers are averaged after every epoch, weighted by data.

    Thapa et al., "SplitFed: When federated learning meets split learning", 2020, algorithms 1 and 2 (SFLV1).
    https://arxiv.org/abs/2004.12088
    Departs from the paper: the server's copies, one per client, are averaged at every step instead of every round and
    so are one; the server also plays the paper's fed server.
    """

    together: ClassVar[bool] = True

    def close_client(self, me: Client) -> Program:
        yield from averaged(me)

    def close_server(self, me: Server, plan: Plan) -> Program:
        yield from average(me, plan)
