from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from splitbench.core.split import SplitModel
from splitbench.core.wire import Wire
from splitbench.topologies._weights import average
from splitbench.topologies.parallel import Parallel


@dataclass(frozen=True)
class SplitFed(Parallel):
    """Parallel split learning whose clients' layers are averaged after every epoch, weighted by data.

    Thapa et al., "SplitFed: When federated learning meets split learning", 2020, algorithms 1 and 2 (SFLV1).
    https://arxiv.org/abs/2004.12088
    Departs from the paper: the server's copies, one a client, are averaged at every step instead of every round and
    so are one; the server also plays the paper's fed server.
    """

    def close_round(self, models: Sequence[SplitModel], wire: Wire, step: int, shares: Sequence[float]) -> None:
        average([model.stages[0] for model in models], shares, wire, step)
