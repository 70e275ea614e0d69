"""Who talks to whom: the programs of the parties, what each sends and waits for, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Generator, Tensor

from splitbench.core.component import Component
from splitbench.core.member import Batch, Client, Mixer, Plan, Server
from splitbench.core.party import SERVER, Party
from splitbench.core.schedule import Program


class Topology(Component):
    """`client`, `server` and `mixer` are whole trainings; `exchange`, `answer` and `mix` their parts of one step."""

    cuts: ClassVar[int] = 1  # how many cuts the network needs
    shares_labels: ClassVar[bool] = True  # whether the server is sent the labels
    simultaneous: ClassVar[bool] = False  # whether clients speak in the same step, which a mixer needs
    together: ClassVar[bool] = False  # whether clients end a training with the same layers

    def places(self, cut: str, model_cuts: Sequence[str]) -> tuple[str, ...]:
        """Where the network is cut, given the user's choice of the first cut."""
        return (cut,)[: self.cuts]

    def rows(self, size: int, plan: Plan, generator: Generator) -> list[Tensor]:
        """The batches of one epoch of a client that has so many samples, by their numbers."""
        raise NotImplementedError

    def steps(self, plan: Plan, party: Party = SERVER) -> int:
        """In how many steps of an epoch a party takes part."""
        raise NotImplementedError

    def client(self, me: Client, plan: Plan) -> Program:
        raise NotImplementedError

    def server(self, me: Server, plan: Plan) -> Program:
        raise NotImplementedError

    def mixer(self, me: Mixer, plan: Plan) -> Program:
        raise NotImplementedError

    def exchange(self, me: Client, batch: Batch) -> Program:
        """A client's part of one step."""
        raise NotImplementedError

    def answer(self, me: Server, senders: Sequence[Party]) -> Program:
        """The server's part of one step with these clients, or with the mixer that stands for them."""
        raise NotImplementedError

    def mix(self, me: Mixer, clients: Sequence[Party]) -> Program:
        """The mixer's part of one step."""
        raise NotImplementedError
