"""UnSplit: recover inputs and the client together, from smashed data alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import Optimizer

from splitbench.attacks._cloning.first_layer import quickened
from splitbench.attacks._cloning.linear_clone import LinearClone
from splitbench.attacks._cloning.total_variation import total_variation
from splitbench.attacks._steps.descent import descend
from splitbench.core.attack import Attack
from splitbench.core.progress import show, steps
from splitbench.core.randomness import seeded
from splitbench.core.threads import one_thread
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Recovered, View


@dataclass
class _Clone:
    """One for all images, or one for each."""

    forward: Callable[[Tensor], Tensor]  # of a batch
    weights: list[Tensor]  # what is to be learned
    linear: LinearClone | None = None  # the same, where it is so simple that nothing needs to pass through it


@dataclass
class _Attempt:
    """Guesses of all images, and the clone or clones that are to explain them."""

    guess: Tensor
    clone: _Clone
    on_guess: Optimizer
    on_clone: Optimizer | None
    error: Tensor  # (N,): of the features
    objective: Tensor  # (N,): the error and the penalties


@dataclass(frozen=True)
class UnSplit(Attack):
    """Alternate between a guess of the inputs and a clone of the client until the smashed data are explained.

    Erdoğan, Küpçü and Çiçek, "UnSplit: data-oblivious model inversion, model stealing, and label inference attacks
    against split learning", 2022, algorithm 1. https://arxiv.org/abs/2108.09033
    Departs from the paper: all images are optimised at once. With `clones: each` every image has a clone of its own, as
    in the paper, whose clone passes from image to image instead; with `clones: shared` one clone must explain them
    all. Batch norm in the clone stays at its initial statistics, so that it is an affine map that can be learned.
    An image and a clone explain as much when one is made smaller and the other larger, or both are negated, so
    the paper's penalties shrink the guess until they are nothing. Here the guess stays in the range of pixels, its
    variation counts relative to its contrast, the error relative to the spread of the smashed data, and the clone
    learns more slowly than the guess; every second start is the opposite of the one before. The paper's objective is
    `bounded: false, relative: false, lr: 1e-3, clone_lr: 1e-3, tv: 0.1, l2: 1`; SEAL's paper simulates its defense in
    the clone with `given: false`.
    """

    # 2: bounded guesses, relative variation; 3: opposite starts; 4: quadratic forms where the clone is linear
    version: ClassVar[int | str] = 4

    needs: ClassVar[ThreatModel] = ThreatModel(architecture=True)
    # What is recovered is the shape of an image: its contrast is anybody's guess.
    readout: ClassVar[Literal["clamp", "minmax"]] = "minmax"
    # Above what the paper's own loop reaches with as many steps at conv1 and bn1 of resnet18: .16, .07 and .28.
    bars: ClassVar[Mapping[str, Mapping[str, float]]] = MappingProxyType(
        {"ssim": {"mnist": 0.8, "fashion_mnist": 0.6, "cifar10": 0.35, "*": 0.35}}
    )

    phases: ClassVar[tuple[str, ...]] = ("outer",)

    outer: Annotated[int, Ge(1)] = 20  # rounds of input steps and clone steps; 1000 in the paper
    inner: Annotated[int, Ge(1)] = 50  # input steps, then as many clone steps, in a round
    lr: Annotated[float, Gt(0)] = 2e-2  # of the guess, with AMSGrad; 1e-3 in the paper
    clone_lr: Annotated[float, Gt(0)] = 3e-4  # of the clone; 1e-3 in the paper
    tv: Annotated[float, Ge(0)] = 0.05  # weight of the total variation; 0.1 in the paper
    l2: Annotated[float, Ge(0)] = 0.1  # weight of the mean square of the guess; 1 in the paper
    bounded: bool = True  # the guess stays between 0 and 1, as pixels do
    relative: bool = True  # errors and variation count relative to variances: shrinking either does not lessen them
    clones: Literal["shared", "each"] = "shared"  # one clone for all images, or one for each
    starts: Annotated[int, Ge(1)] = 4  # attempts with other clones, of which the best explained goes on
    # Negatives are explained late, but then sooner than what is right: that leads after 4 of 20 rounds, not after 6.
    race: Annotated[float, Gt(0), Le(1)] = 0.2  # the share of the rounds after which it is chosen
    draws: Annotated[int, Ge(1)] = 1  # of a random defense that is imagined, averaged in every step
    # What SEAL dropped shows in what it sent, to who knows its basis; the clone's own choice, at first, is another.
    given: bool = True  # an imagined defense drops what it dropped of the targets; false: as of the clone's features
    patience: Annotated[int, Ge(0)] = 0  # rounds without any image explained better, after which it stops; 0: never

    @property
    def racing(self) -> int:
        return math.ceil(self.race * self.outer) if self.starts > 1 else 0

    @property
    def iterations(self) -> int:
        return 2 * self.inner * (self.outer + (self.starts - 1) * self.racing)

    def run(self, view: View, generator: Generator) -> Recovered:
        if self.given:
            view = replace(view, imagined=view.imagined.given(view.merged))
        begun = self._begin(view, generator)
        for which, attempt in enumerate(begun):
            for _ in steps(f"start {which + 1}", self.racing):
                self._round(attempt, view, generator)
        going = self._best(begun)
        least, waited = torch.full((len(view),), torch.inf, device=view.targets.device), 0
        for at in (bar := steps("unsplit", self.outer - self.racing)):
            self._round(going, view, generator)
            if at % max(1, self.outer // 8) == 0:
                show(f"round {self.racing + at + 1}", going.guess.detach)
            bar.saw("feature error", going.error)
            waited = 0 if bool((going.error < 0.99 * least).any()) else waited + 1
            least = torch.minimum(least, going.error)
            if self.patience and waited >= self.patience:
                break
        return Recovered(inputs=going.guess.detach())

    def _begin(self, view: View, generator: Generator) -> list[_Attempt]:
        """All starts. The opposite of a clone tends to the negatives of its images: a pair has both to choose from."""
        seed = int(torch.randint(2**62, (), generator=generator))
        begun = []
        for which in range(self.starts):
            guess = torch.full((len(view), *view.shape), 0.5, device=view.targets.device)
            with seeded(seed, "unsplit", which // 2):
                clone = self._clone(view, len(guess))
            if which % 2 == 1:
                _oppose(clone.weights, 1 if self.clones == "each" else 0)
            begun.append(self._attempt(guess, clone))
        return begun

    def _attempt(self, guess: Tensor, clone: _Clone) -> _Attempt:
        guess = guess.clone().requires_grad_()
        return _Attempt(
            guess=guess,
            clone=clone,
            on_guess=torch.optim.Adam([guess], self.lr, amsgrad=True),
            on_clone=torch.optim.Adam(clone.weights, self.clone_lr, amsgrad=True) if clone.weights else None,
            error=guess.new_full((len(guess),), torch.inf),
            objective=guess.new_full((len(guess),), torch.inf),
        )

    def _round(self, attempt: _Attempt, view: View, generator: Generator) -> None:
        """Input steps, then clone steps."""
        linear = None if view.imagined.disguises else attempt.clone.linear
        with one_thread() if linear and linear.small(view.shape) else nullcontext():
            self._steps(attempt, linear, view, generator)

    def _steps(self, attempt: _Attempt, linear: LinearClone | None, view: View, generator: Generator) -> None:
        guess, clone = attempt.guess, attempt.clone
        spread = view.merged.var().clamp_min(1e-12) if self.relative else 1.0

        def passing(x: Tensor) -> Tensor:
            """(N,), averaged over draws of the defense: one forward pass serves them all."""
            features = clone.forward(x)
            drawn = [_distances(view.imagine(features, generator), view.merged) for _ in range(self.draws)]
            return torch.stack(drawn).mean(0) if len(drawn) > 1 else drawn[0]

        errors = linear.of_images(view.merged, view.shape) if linear else passing
        for _ in range(self.inner):
            error = errors(guess) / spread
            size = guess.square().flatten(1).mean(1)
            objective = error + self.tv * self._variation(guess) + self.l2 * size
            # Summed over images: each has its own loss, whatever the size of the batch.
            descend(attempt.on_guess, objective.sum())
            if self.bounded:
                with torch.no_grad():
                    guess.clamp_(0, 1)
            attempt.error, attempt.objective = error.detach(), objective.detach()
        if attempt.on_clone is None:
            return
        fixed = guess.detach()
        together = torch.sum if self.clones == "each" else torch.mean
        whole = linear.of_weights(fixed, view.merged) if linear else lambda: together(passing(fixed))
        for _ in range(self.inner):
            descend(attempt.on_clone, whole() / spread)

    def _best(self, begun: list[_Attempt]) -> _Attempt:
        """What goes on: of clones that all images share, one; of clones of their own, the best for each image."""
        if len(begun) == 1:
            return begun[0]
        objectives = torch.stack([attempt.objective for attempt in begun])
        if self.clones == "shared":
            return begun[int(objectives.mean(1).argmin())]
        best, images = objectives.argmin(0), torch.arange(objectives.shape[1], device=objectives.device)
        chosen = begun[0]
        for mine, others in zip(chosen.clone.weights, zip(*(a.clone.weights for a in begun), strict=True), strict=True):
            mine.data = torch.stack([other.detach() for other in others])[best, images]
        guess = torch.stack([attempt.guess.detach() for attempt in begun])[best, images]
        return self._attempt(guess, chosen.clone)

    def _variation(self, guess: Tensor) -> Tensor:
        variation = total_variation(guess)
        if not self.relative:
            return variation
        variance = guess.flatten(1).var(1)
        # Images that share a clone share its scale, and a plain one among them may stay plain.
        return variation / (1e-6 + (variance.mean() if self.clones == "shared" else variance))

    def _clone(self, view: View, images: int) -> _Clone:
        assert view.template is not None
        if self.clones == "shared":
            clone = quickened(view.template().to(view.targets.device).eval())
            probe = torch.rand(2, *view.shape, generator=Generator().manual_seed(0)).to(view.targets.device)
            linear = LinearClone.of(clone, probe)
            return _Clone(clone, [p for p in clone.parameters() if p.requires_grad], linear)
        clones: list[nn.Module] = [view.template().to(view.targets.device).eval() for _ in range(images)]
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

        return _Clone(lambda x: vmap(each)(parameters, buffers, x), list(parameters.values()))


def _distances(features: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(features, targets, reduction="none").flatten(1).mean(1)


def _oppose(weights: list[Tensor], stacked: int) -> None:
    """Negates the first layer's weights; biases and scales have fewer dimensions."""
    for weight in weights:
        if weight.dim() - stacked > 1:
            weight.data.neg_()
            return
