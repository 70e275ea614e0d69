from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from splitbench.core.member import Batch, Client, Plan, Server
from splitbench.core.party import Party
from splitbench.core.schedule import Program
from splitbench.topologies._programs.once_each import OnceEach


@dataclass(frozen=True)
class Standalone(OnceEach):
    """No split learning: each client trains a whole network on its own data, and nothing crosses.

    The baseline of "Patch-Wise Random and Noisy CutMix for Privacy-Preserving Split Learning with Vision
    Transformer", table 3. A defense's inputs and gradients apply; there is no smashed data to defend or penalise.
    """

    cuts: ClassVar[int] = 0
    shares_labels: ClassVar[bool] = False

    def client(self, me: Client, plan: Plan) -> Program:
        assert me.load is not None
        for _ in me.epochs(plan):
            for rows in self.rows(me.size, plan, me.streams.of("order")):
                yield from self.exchange(me, me.load(rows))

    def exchange(self, me: Client, batch: Batch) -> Program:
        me.begin_step()
        batch = me.defense.inputs(batch, me.noise)
        value = me.loss(me.forward(me.stages[0], *batch.given), batch.y)
        if not me.frozen:
            value.backward()  # type: ignore[no-untyped-call]
            me.defense.gradients(me.stages[0], me.noise)
        me.report(value)
        me.end_step()
        yield from ()

    def server(self, me: Server, plan: Plan) -> Program:
        yield from ()

    def answer(self, me: Server, senders: Sequence[Party]) -> Program:
        yield from ()
