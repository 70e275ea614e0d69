"""Who takes part: clients, the server, and a mixer that some defenses put between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

Role = Literal["client", "server", "mixer"]


@dataclass(frozen=True, order=True)
class Party:
    """The name of a party, as messages and threat models use it. What a party owns is in `member.py`."""

    role: Role
    index: int = 0

    def __str__(self) -> str:
        return f"{self.role}{self.index}" if self.role == "client" else self.role

    @classmethod
    def named(cls, text: str) -> Party:
        """The inverse of `str`; `client` alone is the first one. Raises `ValueError`."""
        found = re.fullmatch(r"(client)(\d*)|(server)|(mixer)", text)
        if found is None:
            raise ValueError(f"no party named '{text}'; there is server, mixer, client0, client1, ...")
        role = found[1] or found[3] or found[4]
        return cls(cast(Role, role), int(found[2] or 0))


CLIENT = Party("client")
SERVER = Party("server")
MIXER = Party("mixer")


def client(index: int) -> Party:
    return Party("client", index)
