"""The white-box attack of the patch shuffling paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor, nn

from splitbench.attacks._cloning.total_variation import total_variation
from splitbench.attacks._jigsaw.board import Board, placed
from splitbench.attacks._jigsaw.merging import merged
from splitbench.core.attack import Attack
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.progress import show, steps
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass(frozen=True)
class WhiteBox(Attack):
    """Change a guess by gradient descent until the client's own layers make of it what was sent.

    Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", ICDM 2022, equation 4 and
    section V-B.2, after He et al., "Model Inversion Attacks Against Collaborative Inference", ACSAC 2019.
    https://doi.org/10.1145/3359789.3359824
    The defense is applied to the guess as the adversary imagines it; without knowledge of it, not at all: tokens are
    taken to have been sent in their true order. With `order: jigsaw` (the last row of table IV) the patches of a first
    guess are arranged by their borders, the tokens with them, and the descent goes on from there.
    Departs from the paper: fewer steps at a larger rate, which falls, a guess kept between 0 and 1, and a weight of
    the total variation, which settles what the client's layers leave open. The paper takes 100,000 steps of Adam at a
    constant 1e-3, 16 images together; its code has weights of total variation and size, commented out.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(weights=True)
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType({"ssim": {"celeba": 0.8, "*": 0.7}})
    phases: ClassVar[tuple[str, ...]] = ("steps",)

    steps: Annotated[int, Ge(1)] = 300  # of descent, and as many again after a jigsaw; 100000 in the paper
    lr: Annotated[float, Gt(0)] = 0.2  # of Adam; 1e-3 in the paper
    schedule: Literal["cosine", "constant"] = "cosine"  # of the rate, to nothing; constant in the paper
    batch: Annotated[int, Ge(0)] = 0  # images that go through the client together; 16 in the paper; 0: all of them
    start: Annotated[float, Ge(0), Le(1)] = 0.5  # the grey of the first guess
    tv: Annotated[float, Ge(0)] = 0.05  # weight of the guess's total variation; 0 in the paper
    l2: Annotated[float, Ge(0)] = 0.0  # weight of the guess's mean square
    bounded: bool = True  # the guess stays between 0 and 1, as pixels do
    order: Literal["as_sent", "jigsaw"] = "as_sent"  # of the tokens: taken as true, or guessed by a jigsaw solver

    @property
    def iterations(self) -> int:
        return self.steps * (2 if self.order == "jigsaw" else 1)

    def run(self, view: View, generator: Generator) -> Recovered:
        if view.client is None:
            raise SplitbenchError(f"white_box {self.lacks(view.threat)}")
        targets = view.merged
        if not targets.isfinite().all():
            raise CellError("white_box: the smashed data are not finite, so there is nothing to fit")
        board = Board.of_view(view, "white_box with order=jigsaw") if self.order == "jigsaw" else None
        client = view.client().to(targets.device).eval().requires_grad_(False)
        guess = torch.full((len(view), *view.shape), self.start, device=targets.device)
        guess = self._descended(guess, targets, client, view, generator, board)
        if board is not None:
            patches = board.patches(guess)
            order = merged(patches, board)
            guess, targets = board.images(placed(patches, order)), _rearranged(targets, order, board)
            guess = self._descended(guess, targets, client, view, generator)
        return Recovered(inputs=guess)

    def _descended(
        self,
        guess: Tensor,
        targets: Tensor,
        client: nn.Module,
        view: View,
        generator: Generator,
        apart: Board | None = None,
    ) -> Tensor:
        """The guess after all steps towards these targets; its patches vary each by itself if they are to be taken
        apart, for a border that was smoothed would suit its neighbour."""
        optimizer = torch.optim.Adam([guess], self.lr)
        # Relative to the variance of what was sent: the weights then mean the same whatever the client's scale.
        spread = targets.var(correction=0).clamp_min(1e-12)

        def slope(part: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
            """The gradient for some images, and their errors (N,)."""
            x = part.detach().requires_grad_()
            passed = view.imagine(client(x), generator)
            error = F.mse_loss(passed, wanted, reduction="none").flatten(1).mean(1) / spread
            objective = error + self.tv * self._variation(x, apart) + self.l2 * x.square().flatten(1).mean(1)
            # Summed over images: each has its own loss, whatever the size of the batch.
            return torch.autograd.grad(objective.sum(), x)[0], error.detach()

        together = self.batch or len(guess)
        for step in (bar := steps("white box", self.steps)):
            for group in optimizer.param_groups:
                group["lr"] = self.lr * self._share(step)
            parts = zip(torch.split(guess, together), torch.split(targets, together), strict=True)
            slopes, errors = zip(*(slope(part, wanted) for part, wanted in parts), strict=True)
            guess.grad = torch.cat(slopes)
            optimizer.step()
            if self.bounded:
                guess.clamp_(0, 1)
            bar.saw("feature error", torch.cat(errors))
            if step % max(1, self.steps // 8) == 0:
                show(f"step {step + 1}", guess.clone)
        return guess.detach()

    def _variation(self, x: Tensor, apart: Board | None) -> Tensor:
        return total_variation(x if apart is None else apart.tiles(apart.patches(x)))

    def _share(self, step: int) -> float:
        """Of the learning rate, at a step."""
        return (1 + math.cos(math.pi * step / self.steps)) / 2 if self.schedule == "cosine" else 1.0


def _rearranged(targets: Tensor, order: Tensor, board: Board) -> Tensor:
    """What was sent, with the tokens of places in this order; the others stay."""
    tokens = placed(board.tokens(targets), order)
    if board.layout.kind == "maps":
        return tokens.transpose(1, 2).reshape_as(targets)
    return torch.cat((targets[:, : board.layout.prefix].float(), tokens), 1)
