"""Several rounds of the same shuffled images, laid side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Generator, Tensor

from splitbench.attacks._jigsaw.board import placed
from splitbench.attacks._jigsaw.recovering import recovered
from splitbench.attacks._jigsaw.solving import solved
from splitbench.attacks._rounds.counting import gathered
from splitbench.attacks.jigsaw import Jigsaw
from splitbench.attacks.mae_decoder import MAEDecoder
from splitbench.core.imagined import Imagined
from splitbench.core.layout import Layout, by_rank
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class MultiRound(Jigsaw):
    """Find out over many rounds which patches belong to which image, then solve each image's jigsaw.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, equation 5 and
    section V-B.3: an adversary that was sent the same images again and again, shuffled anew each time.
    https://github.com/dixiyao/PatchShuffling
    `decoder` is the paper's: the tokens of all rounds beside each other, into its decoder. `counting` goes beyond it.
    Tokens of two rounds are matched by the patches that they hold, so that each can be followed through all rounds;
    an image's own are in its row more often than in any other, and by enough rounds its whole set is known. Counts are
    put into rows of L places each so that they are the largest together. What follows is `jigsaw` on complete sets,
    of patches that are means over all rounds. One round, or a client that leaves tokens in their row, is that jigsaw.
    """

    how: Literal["counting", "decoder"] = "counting"  # follow patches through the rounds, or the paper's decoder on all
    rows: Literal["known", "unknown"] = "known"  # whether a row is the same image's in each round, as labels may tell

    def lacks(self, threat: ThreatModel) -> str | None:
        if self.how == "decoder":
            return threat.lacks(ThreatModel(auxiliary=1, queries=1))
        return super().lacks(threat)

    def run(self, view: View, generator: Generator) -> Recovered:
        if self.how == "decoder":
            decoder = MAEDecoder(steps=self.steps, batch=self.batch, width=self.width, blocks=self.blocks)
            return decoder.run(_side_by_side(view), generator)
        count = len(view.targets)
        every = replace(view, targets=view.targets.flatten(0, 1)[None])  # all rounds by one map
        found = recovered(every, self.blind, generator, "multi_round")
        rounds = found.targets.view(count, -1, *found.targets.shape[1:])
        batches = [gathered(part, self.rows == "known") for part in torch.split(rounds, view.batch, 1)]
        # Where nothing is shuffled the order received is the true one, which ties in a solver would give away.
        keys = torch.rand(found.targets.shape[1], len(view), generator=generator).T
        mixed = placed(torch.cat(batches), keys.argsort(1).to(found.targets.device))
        network = self._network(view, found, generator) if self.solver != "merging" else None
        return Recovered(inputs=found.board.images(placed(mixed, solved(mixed, found.board, network, self.solver))))


class _SideBySide(Imagined):
    """Rounds as features of one token."""

    def merge(self, rounds: Tensor) -> Tensor:
        return torch.cat(rounds.unbind(0), -1) if rounds.dim() == 4 else torch.cat(rounds.unbind(0), 1)


def _side_by_side(view: View) -> View:
    """The view of an adversary that concatenates all rounds along the features (channels, of maps)."""
    layout, rounds = view.layout or by_rank(view.targets.shape[2:]), len(view.targets)
    shape = (*layout.shape[:-1], rounds * layout.shape[-1])
    if len(layout.shape) != 2:
        shape = (rounds * layout.shape[0], *layout.shape[1:])
    return replace(view, layout=Layout(layout.kind, shape, layout.prefix, layout.grid), imagined=_SideBySide())
