"""UnSplit: recover inputs and the client together, from smashed data alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt
from torch import Generator, Tensor, nn
from torch.func import functional_call, vmap

from splitbench.attacks._tv import total_variation
from splitbench.core.attack import Attack
from splitbench.core.progress import show, steps
from splitbench.core.randomness import seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class UnSplit(Attack):
    """Alternate between a guess of the inputs and a clone of the client until the smashed data are explained.

    Erdoğan, Küpçü and Çiçek, "UnSplit: data-oblivious model inversion, model stealing, and label inference attacks
    against split learning", 2022, algorithm 1. https://arxiv.org/abs/2108.09033
    Departs from the paper: all images are optimised at once. With `clones: each` every image has a clone of its own, as
    in the paper, whose clone passes from image to image instead; with `clones: shared` one clone must explain them
    all. Batch norm in the clone stays at its initial statistics, so that it is an affine map that can be learned.
    """

    needs: ClassVar[ThreatModel] = ThreatModel(architecture=True)
    # The penalty on the size of the guess shrinks it to a few percent of the range; what is recovered is its shape.
    readout: ClassVar[Literal["clamp", "minmax"]] = "minmax"
    bars: ClassVar[Mapping[str, float]] = MappingProxyType({"*": 0.5})

    phases: ClassVar[tuple[str, ...]] = ("outer",)

    outer: Annotated[int, Ge(1)] = 20  # rounds of input steps and clone steps; 1000 in the paper
    inner: Annotated[int, Ge(1)] = 100  # input steps, then as many clone steps, in a round
    lr: Annotated[float, Gt(0)] = 1e-3  # of both, with AMSGrad
    tv: Annotated[float, Ge(0)] = 0.1  # weight of the total variation
    l2: Annotated[float, Ge(0)] = 1.0  # weight of the mean square of the guess
    clones: Literal["shared", "each"] = "shared"  # one clone for all images, or one for each
    starts: Annotated[int, Ge(1)] = 1  # guesses of each image, the first grey, others noise; the best explained is kept
    draws: Annotated[int, Ge(1)] = 1  # of a random defense that is imagined, averaged in every step
    patience: Annotated[int, Ge(0)] = 0  # rounds without any image explained better, after which it stops; 0: never

    @property
    def iterations(self) -> int:
        return 2 * self.outer * self.inner

    def run(self, view: View, generator: Generator) -> Recovered:
        z = view.targets.repeat(self.starts, *(1 for _ in view.targets.shape[1:]))
        guess = torch.full((len(z), *view.shape), 0.5)
        guess[len(view.targets) :] = torch.rand(guess[len(view.targets) :].shape, generator=generator)
        guess.requires_grad_()
        with seeded(int(torch.randint(2**62, (), generator=generator)), "unsplit"):
            forward, weights = self._clone(view, len(z))
        on_guess = torch.optim.Adam([guess], self.lr, amsgrad=True)
        on_clone = torch.optim.Adam(weights, self.lr, amsgrad=True) if weights else None
        error = least = torch.full((len(z),), torch.inf)
        waited = 0

        def errors(x: Tensor) -> Tensor:
            """(N,), averaged over draws of the defense: one forward pass serves them all."""
            features = forward(x)
            drawn = [_per_image(view.imagine(features, generator) - z) for _ in range(self.draws)]
            return torch.stack(drawn).mean(0) if len(drawn) > 1 else drawn[0]

        for at in (bar := steps("unsplit", self.outer)):
            for _ in range(self.inner):
                error = errors(guess)
                size = guess.square().flatten(1).mean(1)
                # Summed over images: each has its own loss, whatever the size of the batch.
                loss = (error + self.tv * total_variation(guess) + self.l2 * size).sum()
                (guess.grad,) = torch.autograd.grad(loss, [guess])
                on_guess.step()
            fixed = guess.detach()
            for _ in range(self.inner if on_clone is not None else 0):
                now = errors(fixed)
                loss = now.sum() if self.clones == "each" else now.mean()
                for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                    weight.grad = slope
                assert on_clone is not None
                on_clone.step()
            if at % max(1, self.outer // 8) == 0:
                show(f"round {at + 1}", partial(self._kept, guess.detach(), error.detach(), len(view.targets)))
            bar.saw("feature error", error)
            better = error.detach() < 0.99 * least
            waited = 0 if bool(better.any()) else waited + 1
            least = torch.minimum(least, error.detach())
            if self.patience and waited >= self.patience:
                break
        return Recovered(inputs=self._kept(guess.detach(), error.detach(), len(view.targets)))

    def _kept(self, guess: Tensor, error: Tensor, images: int) -> Tensor:
        """Of the starts of each image, the one whose features are nearest to those observed."""
        best = error.view(self.starts, images).argmin(0)
        kept: Tensor = guess.view(self.starts, images, *guess.shape[1:])[best, torch.arange(images)]
        return kept

    def _clone(self, view: View, images: int) -> tuple[Forward, list[Tensor]]:
        """The clone as a function of a batch, and what is to be learned of it."""
        assert view.template is not None
        if self.clones == "shared":
            clone = view.template().eval()
            return clone, [p for p in clone.parameters() if p.requires_grad]
        clones: list[nn.Module] = [view.template().eval() for _ in range(images)]
        # Stacked by hand: torch's helper wants modules of one class, and every cut network is a class of its own.
        parameters = {
            name: torch.stack([clone.get_parameter(name).detach() for clone in clones]).requires_grad_()
            for name, _ in clones[0].named_parameters()
        }
        buffers = {
            name: torch.stack([clone.get_buffer(name) for clone in clones]) for name, _ in clones[0].named_buffers()
        }

        def each(weights: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor) -> Tensor:
            answer: Tensor = functional_call(clones[0], (weights, fixed), (x[None],))
            return answer[0]

        return lambda x: vmap(each)(parameters, buffers, x), list(parameters.values())


def _per_image(difference: Tensor) -> Tensor:
    return difference.square().flatten(1).mean(1)
