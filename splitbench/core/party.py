"""Who takes part: clients, the server, and a mixer that some defenses put between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["client", "server", "mixer"]


@dataclass(frozen=True, order=True)
class Party:
    role: Role
    index: int = 0

    def __str__(self) -> str:
        return f"{self.role}{self.index}" if self.role == "client" else self.role


CLIENT = Party("client")
SERVER = Party("server")
MIXER = Party("mixer")


def client(index: int) -> Party:
    return Party("client", index)
