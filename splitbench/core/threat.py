"""What an adversary holds, and what an attack needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

Knowledge = Literal["none", "family", "exact"]
KNOWLEDGE: tuple[Knowledge, ...] = get_args(Knowledge)


@dataclass(frozen=True)
class ThreatModel:
    """The capabilities granted to the server. The defaults are the weakest: it hears what is sent to it."""

    labels: bool = False  # the targets' labels are known to the adversary
    architecture: bool = False  # the client's layers are known, not their weights
    auxiliary: int = 0  # public samples like the private ones, with their labels
    queries: int = 0  # inputs it may put through the client, defense included
    transcript: bool = False  # it kept what passed during training
    tampers: bool = False  # false: honest but curious
    knowledge: Knowledge = "none"  # of the defense: that it is there and guesses its secret, or holds the secret
    rounds: int = 1  # how often it was sent each target, defended anew each time

    def lacks(self, needed: ThreatModel) -> str | None:
        """What is missing for an attack with these needs, as a sentence, or None if nothing is."""
        missing = []
        for field in fields(self):
            need, have = getattr(needed, field.name), getattr(self, field.name)
            if _rank(need) > _rank(have):
                missing.append(f"{field.name}={_word(need)} but the threat model grants {field.name}={_word(have)}")
        return "needs " + "; needs ".join(missing) if missing else None


def _rank(value: bool | int | str) -> int:
    return list(KNOWLEDGE).index(value) if isinstance(value, str) else int(value)  # type: ignore[arg-type]


def _word(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
