from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor

from splitbench.core.defense import Defense
from splitbench.core.imagined import Imagined, Rebuilt
from splitbench.core.message import Message
from splitbench.core.randomness import generator as seeded_generator
from splitbench.core.threat import Knowledge
from splitbench.methods.seal.periodic import Over, Periodic, basis, named, secret
from splitbench.methods.seal.zigzag import OneFor, behind_the_last, dropped, projected

_SOON_MADE = 256  # rows of the largest basis that is made only to see whether there is one


@dataclass(frozen=True)
class SEAL(Defense):
    """Transform smashed data by a secret periodic basis, drop what lies beyond a share of its energy, transform back.

    "Split, Not Spilled: Practical Obfuscation-Based Privacy-Preserving Split Learning", under review: algorithms 1
    to 5. What is sent is an orthogonal projection of each feature map, its cosine to the original at least the square
    root of omega, whatever the function.
    Where the paper is of two minds: Z = Q X Q' as in algorithm 2; Q is orthonormalised over rows, or, as its section
    4.2 has it, over columns; the kept coefficients are a prefix of the zig-zag order, of each feature map by itself.
    """

    version: ClassVar[int | str] = 2  # 2: one function per experiment, where all data sets of a seed shared one
    secrets: ClassVar[tuple[str, ...]] = ("key",)

    omega: Annotated[float, Gt(0), Le(1)] = 0.7  # share of the energy that is kept; 1: everything
    function: str = "secret"  # of each client its own; or cos (the DCT), triangle, cos(x)+0.9cos(2x), ... for all
    key: Annotated[int, Ge(0)] | None = None  # of the secret functions; none: drawn for each experiment
    over: Over = "rows"  # what of the sampled matrix is made orthonormal
    mask: OneFor = "map"  # for what the kept coefficients are chosen: each map, each image, or the batch
    indices: Literal["each", "before"] = "each"  # chosen from the data each time, or once before (algorithm 5)
    signal: Literal["gaussian", "uniform"] = "gaussian"  # the random matrix that algorithm 5 chooses by

    def __post_init__(self) -> None:
        if self.function != "secret":
            named(self.function)

    def imagined(self, rung: Knowledge, observed: Tensor) -> Imagined:
        """An adversary that knows that it is SEAL guesses the cosine."""
        if rung == "none":
            return Imagined()
        if rung == "exact":
            return _Imagined(self)
        return _Imagined(replace(self, function="cos", key=None).bind(replace(self.context, client=0, secret=0)))

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        z = message.tensor
        if message.kind != "smashed" or not z.is_floating_point():
            return message
        return message.carrying(self.perturbed(z))

    def perturbed(self, z: Tensor) -> Tensor:
        """X~ of algorithm 2 for maps (..., H, W), tokens (N, L, D) or vectors (N, D); differentiable.

        What is kept is chosen without gradient, so the way back is the same projection.
        """
        # A network that keeps its channels last gets them back so, both ways: batch norm is slow between two layouts.
        last = z.dim() == 4 and not z.is_contiguous() and z.is_contiguous(memory_format=torch.channels_last)
        if last and z.requires_grad:
            z.register_hook(_channels_last)  # type: ignore[no-untyped-call]
        x = z if z.dim() > 2 else z.unsqueeze(1)  # a vector is a map of one row
        down, across = self._bases_like(x)
        back = projected(x, down, across, self._dropped)
        if last:
            return _channels_last(back)
        return back if z.dim() > 2 else back.squeeze(1)

    def function_of(self, height: int, width: int) -> Periodic:
        """The function of the client that this instance is bound to."""
        if self.function != "secret":
            return named(self.function)
        return secret(self._key, self.context.client, (height, width))

    @property
    def _key(self) -> int:
        return self.context.secret if self.key is None else self.key

    def bases(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        """The client's Q for columns of `height` values and for rows of `width`, in float64."""
        function = self.function_of(height, width)
        return basis(function, height, self.over), basis(function, width, self.over)

    def _bases_like(self, x: Tensor) -> tuple[Tensor, Tensor]:
        height, width = x.shape[-2:]
        if x.is_meta:  # without numbers the sizes are all there is, and a basis of thousands takes a minute to make
            if max(height, width) <= _SOON_MADE:
                self.bases(height, width)  # refuses a function that makes none
            return x.new_empty(height, height), x.new_empty(width, width)
        down, across = self.bases(height, width)
        return down.to(x), across.to(x)

    def _dropped(self, spectrum: Tensor) -> Tensor:
        if self.indices == "each":
            return dropped(spectrum, self.omega, self.mask)
        height, width = spectrum.shape[-2:]
        draws = seeded_generator(self._key, "algorithm 5", self.context.client)
        noise = torch.randn if self.signal == "gaussian" else torch.rand
        signal = noise(height, width, dtype=torch.float64, generator=draws)
        down, across = self.bases(height, width)
        return dropped(down.T @ signal @ across, self.omega).to(spectrum.device)


@dataclass(frozen=True)
class _Imagined(Rebuilt):
    """SEAL as an adversary rebuilds it: with the cosine, with functions of its own, or with the client's."""

    defense: SEAL

    def shadow(self, generator: Generator) -> Imagined:
        key = int(torch.randint(2**62, (), generator=generator))
        return _Imagined(replace(self.defense, function="secret", key=key).bind(self.defense.context))

    def given(self, sent: Tensor) -> Imagined:
        """Of what was sent, every coefficient behind the last that is anything was dropped, and no other."""
        if self.defense.indices == "before" or sent.dim() != 4:
            return self
        down, across = self.defense._bases_like(sent)
        beyond = behind_the_last(down @ sent @ across.T)
        return _Projection(down, across, beyond) if bool(beyond.any()) else Imagined()


@dataclass(frozen=True)
class _Projection(Imagined):
    """SEAL with coefficients that are dropped for good, sample by sample."""

    down: Tensor
    across: Tensor
    beyond: Tensor

    def simulate(self, z: Tensor, generator: Generator | None) -> Tensor:
        return projected(z, self.down, self.across, lambda _: self.beyond)


def _channels_last(maps: Tensor) -> Tensor:
    return maps.contiguous(memory_format=torch.channels_last)
