"""What an adversary has of patches before it asks for their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor

from splitbench.attacks._jigsaw.board import Board
from splitbench.attacks._jigsaw.examples import Loss
from splitbench.attacks._jigsaw.ridge import Ridge, blind
from splitbench.attacks._steps.descent import draw
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.threat import ThreatModel
from splitbench.core.view import View

Blind = Literal["auto", "yes", "no"]

_TOKENS = 160_000  # tokens from which the map is made: more change nothing
_MIXED = 60_000  # the same where they are looked for in whole batches


@dataclass(frozen=True)
class Patches:
    """The targets' patches in the order received, and what recovering does to a patch."""

    targets: Tensor  # (N, L, P)
    loss: Loss
    board: Board


def lacking(threat: ThreatModel, blind: Blind) -> str | None:
    """Auxiliary data, and queries or the weights."""
    if reason := threat.lacks(ThreatModel(auxiliary=1)):
        return reason
    if blind == "yes" or (blind == "auto" and not threat.weights):
        return threat.lacks(ThreatModel(queries=1))
    return threat.lacks(ThreatModel(weights=True)) if blind == "no" else None


@torch.no_grad()
def recovered(view: View, how: Blind, generator: Generator, attack: str) -> Patches:
    """From the first round alone: under shuffling the others have other orders, and nothing else is new in them."""
    if reason := lacking(view.threat, how):
        raise SplitbenchError(f"{attack} {reason}")
    assert view.auxiliary is not None
    board = Board.of_view(view, attack)
    sent = board.tokens(view.targets[0])
    if not sent.isfinite().all():
        raise CellError(f"{attack}: the smashed data are not finite, so there is nothing to learn from")
    shuffled = how == "yes" or view.client is None
    together = view.batch if shuffled else 1
    most = max(together, (_MIXED if together > 1 else _TOKENS) // board.places)
    if shuffled:
        assert view.query is not None
        x = draw(view.auxiliary.x, min(most, view.query.left), generator)
        z = board.tokens(view.query(x)[0])
    else:
        assert view.client is not None
        x = draw(view.auxiliary.x, most, generator)
        client = view.client()
        z = board.tokens(torch.cat([client(part) for part in torch.split(x, 128)]))
    if not z.isfinite().all():
        raise CellError(f"{attack}: the smashed data are not finite, so there is nothing to learn from")
    patches = board.patches(x)
    if shuffled:
        back, z, patches = blind(z, patches, together)
    else:
        back = Ridge.of(z, patches)
    return Patches(back(sent).clamp(0, 1), Loss.of(back(z), patches), board)
