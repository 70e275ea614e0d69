"""Training a decoder on pairs of smashed data and images, chosen by pairs it has not seen."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from splitbench.attacks._decoding.decoder import Decoder
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._decoding.linear_inverse import LinearInverse
from splitbench.attacks._steps.descent import descend, shuffled
from splitbench.core.layout import by_rank
from splitbench.core.progress import show, steps

Map = Callable[[Tensor], Tensor]

_LEAK = 0.02  # of the gradient where a guess is beyond [0, 1]
_LOOKS = 8  # times that training stops to look at the pairs kept aside
_HIDDEN = 5.0  # times the variance that is seen to differ
_TRIED = 0.3  # noise with which a client is tested, in standard deviations of a feature
_ENOUGH = 1e-4  # a loss at which no eye and no metric would notice an improvement


@dataclass(frozen=True)
class Training:
    """How a decoder is made and trained."""

    steps: int
    batch: int
    lr: float
    width: int
    blocks: int
    structure: float
    noise: float = 0.0  # on the features, in standard deviations, if those to be decoded are not quite like them


@dataclass(frozen=True)
class Pairs:
    """What a decoder learns from."""

    z: Tensor
    x: Tensor
    labels: Tensor | None = None  # (N, K), if the decoder is told them
    # Through a random defense every look at the same features is another: drawn anew each step, the decoder learns
    # what is best on average over draws.
    through: Map = lambda z: z
    grid: Grid | None = None  # how the features lie over the image; none given: as their shape says

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | Tensor) -> Pairs:
        labels = self.labels[rows] if self.labels is not None else None
        return Pairs(self.z[rows], self.x[rows], labels, self.through, self.grid)

    def over(self, z: Tensor) -> Grid:
        return self.grid or Grid.of(by_rank(z.shape[1:]))


@dataclass(frozen=True)
class Wanted:
    """The smashed data that a decoder is for: to be looked at while it learns."""

    z: Tensor
    labels: Tensor | None = None


def trained_decoder(
    pairs: Pairs,
    how: Training,
    generator: Generator,
    what: str,
    wanted: Wanted | None = None,
    further: Callable[[Decoder], Tensor] | None = None,
) -> Decoder:
    """The decoder that does best on the last eighth of the pairs. Initialised from torch's global generator.

    `further` is one more loss, of the decoder as it is.
    """
    aside = min(len(pairs) // 8, 256)
    sent = pairs.through(pairs.z)
    blurred = blurring(sent, how.noise)
    kept = pairs[-aside:] if aside else pairs  # too few to spare any
    z_kept = blurred(sent[-aside:])  # all of them, if none were spared
    pairs = pairs[: len(pairs) - aside]
    shape = tuple(pairs.x.shape[1:])
    seen_once = blurred(sent[: len(pairs)])
    linear = LinearInverse(pairs.over(seen_once), shape, seen_once, pairs.x)
    told = pairs.labels.shape[1] if pairs.labels is not None else 0
    decoder = Decoder(linear, how.width, how.blocks, told).to(pairs.x.device)
    decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a third faster on a CPU
    optimizer = torch.optim.AdamW(decoder.parameters(), how.lr, betas=(0.9, 0.99))
    total, warm = max(1, how.steps), max(1, how.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (1 + math.cos(math.pi * step / total)) / 2)
    )
    best, chosen = math.inf, decoder
    every = max(1, how.steps // _LOOKS)
    batches = shuffled(pairs.x, how.batch, generator)

    def look(step: int) -> None:
        nonlocal best, chosen
        loss = _loss(decoded(decoder, z_kept, kept.labels), kept.x, how.structure).item()
        if loss < best:
            best, chosen = loss, copy.deepcopy(decoder)
        if wanted is not None:
            show(f"{what} {step}", lambda: decoded(decoder, wanted.z, wanted.labels))

    for step in (bar := steps(what, how.steps)):
        if step % every == 0:
            look(step)
            if best < _ENOUGH:
                break
        seen = pairs[next(batches)]
        guess = decoder(blurred(seen.through(seen.z)), seen.labels)
        inside = guess.clamp(0, 1)
        # Beyond black is black: only a little of the gradient is kept there, to find the way back if that was wrong.
        loss = _loss(inside + _LEAK * (guess - inside), seen.x, how.structure)
        if further is not None:
            loss = loss + further(decoder)
        descend(optimizer, loss)
        schedule.step()
        bar.saw("loss", loss)
    else:
        look(how.steps)
    return chosen


@torch.no_grad()
def fitting_noise(pairs: Pairs, client: Map, targets: Tensor) -> float:
    """How much noise on one's own features, in their standard deviations, suits what is wrong with one's client.

    Targets are decoded and smashed again by one's own client. What comes out differs from what went in by what the
    decoder misses, as it does for one's own features, and by what is wrong with the client: only for the targets.
    Noise makes a decoder that does not lean on what is wrong. A multiple, since decoding hides most of the difference.
    """
    shape = tuple(pairs.x.shape[1:])
    own = pairs.through(pairs.z)
    noisy = blurring(own, _TRIED)(own)
    linear = LinearInverse(pairs.over(own), shape, noisy, pairs.x)
    some = slice(0, 256)

    def missed(z: Tensor, decoded_from: Tensor) -> Tensor:
        again = pairs.through(client(linear(decoded_from).clamp(0, 1)))
        return linear.standardised(linear.grid.maps(again) - linear.grid.maps(z) + linear.centre).square().mean()

    excess = missed(targets[some], targets[some]) - missed(own[some], noisy[some])
    return float((_HIDDEN * excess).clamp(0, 1))


def blurring(z: Tensor, amount: float) -> Map:
    """Adds noise in proportion to the spread of each feature, from torch's global generator on the CPU."""
    if not amount:
        return lambda part: part
    scale = amount * z.std(0, correction=0, keepdim=True)  # unbiased, it would be NaN for a single pair
    return lambda part: part + scale * torch.randn_like(part, device="cpu").to(part.device)


@torch.no_grad()
def decoded(decoder: Decoder, z: Tensor, labels: Tensor | None = None) -> Tensor:
    """Images in [0, 1], a batch at a time."""
    told = torch.split(labels, 256) if labels is not None else [None] * max(1, -(-len(z) // 256))
    parts = zip(torch.split(z, 256), told, strict=True)
    return torch.cat([decoder(part, label).clamp(0, 1) for part, label in parts])


def _loss(guess: Tensor, truth: Tensor, structure: float) -> Tensor:
    error = F.mse_loss(guess, truth)
    return error + structure * dissimilarity(guess, truth) if structure else error


def dissimilarity(a: Tensor, b: Tensor) -> Tensor:
    """One minus the structural similarity with a uniform window, cheap and differentiable: a loss, not the metric."""
    window = min(7, *a.shape[-2:])
    moments = F.avg_pool2d(torch.cat((a, b, a * a, b * b, a * b), 1), window, stride=1)
    mean_a, mean_b, aa, bb, ab = moments.chunk(5, 1)
    var_a, var_b = (aa - mean_a.square()).clamp(min=0), (bb - mean_b.square()).clamp(min=0)
    luminance = (2 * mean_a * mean_b + 1e-4) / (mean_a.square() + mean_b.square() + 1e-4)
    return 1 - (luminance * (2 * (ab - mean_a * mean_b) + 9e-4) / (var_a + var_b + 9e-4)).mean()
