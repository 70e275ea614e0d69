"""What an adversary holds, and what an attack needs."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge

Knowledge = Literal["none", "family", "exact"]
KNOWLEDGE: tuple[Knowledge, ...] = get_args(Knowledge)
ANY = "any"  # as the party an attack needs: whoever it is

Count = Annotated[int, Ge(0)]


@dataclass(frozen=True)
class ThreatModel:
    """Who attacks, and what it is granted. The defaults are the weakest: it hears what is sent to it.

    In what an attack needs, `party` may be a role ("client": any client) or `ANY`.
    """

    labels: bool = False  # the targets' labels are known to the adversary (default: if they are sent to it)
    architecture: bool = False  # the client's layers are known, not their weights (default: yes)
    weights: bool = False  # the client's layers are known with their weights, though not its secrets (default: no)
    auxiliary: Count = 0  # public samples like the private ones, with their labels (default: all set aside)
    private: bool = False  # its auxiliary samples are those trained on: a worst case, not a threat (default: no)
    queries: Count = 0  # inputs it may put through the client, defense included (default: one per auxiliary sample)
    transcript: bool = False  # it kept what passed during training (default: if the run was recorded)
    tampers: bool = False  # it may send something else than the protocol says (default: no)
    knowledge: Knowledge = "none"  # of the defense: nothing, its kind (the secret is guessed), or the secret
    rounds: Annotated[int, Ge(1)] = 1  # how often it was sent each target, defended anew each time
    party: str = "server"  # who attacks: server, mixer, client0, client1, ...

    @property
    def role(self) -> str:
        """Server, mixer or client, whichever client it is."""
        return self.party.rstrip("0123456789")

    def lacks(self, needed: ThreatModel) -> str | None:
        """What is missing for an attack with these needs, and how to grant it, as a sentence; None if nothing is."""
        wanted: dict[str, Any] = {
            field.name: getattr(needed, field.name)
            for field in fields(self)
            if not self._has(field.name, getattr(needed, field.name))
        }
        return _lacking(wanted, self) if wanted else None

    def _has(self, name: str, need: Any) -> bool:
        if name == "party":
            return need in (ANY, self.party, self.role)
        return _rank(need) <= _rank(getattr(self, name))


def _lacking(wanted: dict[str, Any], threat: ThreatModel) -> str:
    """That these fields are needed and not granted, and what to add on the command line or in a recipe."""
    missing = [
        f"needs {name}={_word(need)} but the threat model grants {name}={_word(getattr(threat, name))}"
        for name, need in wanted.items()
    ]
    given = {name: "client0" if (name, need) == ("party", "client") else need for name, need in wanted.items()}
    options = " ".join(f"--{name}" if need is True else f"--{name} {_word(need)}" for name, need in given.items())
    keys = ", ".join(f"{name}: {_word(need)}" for name, need in given.items())
    return f"{'; '.join(missing)}; add {options}, or in a recipe threat: {{{keys}}}"


def is_party(name: str) -> bool:
    return re.fullmatch(r"server|mixer|client\d+", name) is not None


def _rank(value: bool | int | str) -> int:
    return list(KNOWLEDGE).index(value) if isinstance(value, str) else int(value)  # type: ignore[arg-type]


def _word(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
