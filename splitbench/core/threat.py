"""What an adversary holds, and what an attack needs."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class ThreatModel:
    """The capabilities granted to the server. The defaults are the weakest: it hears what is sent to it."""

    labels: bool = False  # the targets' labels are known to the adversary
    architecture: bool = False  # the client's layers are known, not their weights
    auxiliary: int = 0  # public samples like the private ones, with their labels
    queries: int = 0  # inputs it may put through the client, defense included
    transcript: bool = False  # it kept what passed during training
    tampers: bool = False  # false: honest but curious

    def lacks(self, needed: ThreatModel) -> str | None:
        """What is missing for an attack with these needs, as a sentence, or None if nothing is."""
        missing = []
        for field in fields(self):
            need, have = getattr(needed, field.name), getattr(self, field.name)
            if need > have:
                missing.append(f"{field.name}={_word(need)} but the threat model grants {field.name}={_word(have)}")
        return "needs " + "; needs ".join(missing) if missing else None


def _word(value: bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
