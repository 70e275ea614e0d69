"""One operation of a step, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from splitbench.core.party import Role

Who = Role | Literal["others"]  # the first client, all further ones, the mixer, the server
Component = Literal["layers", "defense", "penalty"]
Phase = Literal["forward", "backward", "update"]

# In the order in which tables list them.
COMPONENTS: tuple[Component, ...] = ("layers", "defense", "penalty")
PHASES: tuple[Phase, ...] = ("forward", "backward", "update")


@dataclass(frozen=True)
class Owner:
    """Who runs an operation, and what for."""

    party: Who = "client"
    component: Component = "layers"
    path: str = ""  # of the module, as the network names it


@dataclass(frozen=True)
class Operation:
    owner: Owner
    phase: Phase
    name: str  # as torch calls it
    kind: str  # what its speed is looked up by
    macs: int  # multiplications with the addition that follows; torch counts each as two
    read: int  # bytes
    written: int
    depth: int = 0  # of a product: how many terms are summed for one result

    @property
    def bytes(self) -> int:
        return self.read + self.written
