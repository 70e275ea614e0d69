"""Training a decoder on pairs of smashed data and images, chosen by pairs it has not seen."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from splitbench.attacks._decoders import Decoder
from splitbench.attacks._grid import Grid
from splitbench.attacks._linear import LinearInverse
from splitbench.core.progress import tell

_LEAK = 0.02  # of the gradient where a guess is beyond [0, 1]
_LOOKS = 8  # times that training stops to look at the pairs kept aside
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


def trained_decoder(z: Tensor, x: Tensor, how: Training, generator: Generator, what: str) -> Decoder:
    """The decoder that does best on the last eighth of the pairs. Initialised from torch's global generator."""
    aside = min(len(x) // 8, 256)
    kept = slice(-aside, None) if aside else slice(None)  # too few to spare any
    noisy = _noise(z, how.noise)
    z_kept, x_kept = noisy(z[kept]), x[kept]
    z, x = z[: len(x) - aside], x[: len(x) - aside]
    shape = tuple(x.shape[1:])
    linear = LinearInverse(Grid.of(z.shape[1:], shape), shape, noisy(z), x)
    decoder = Decoder(linear, how.width, how.blocks).to(x.device)
    decoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a third faster on a CPU
    optimizer = torch.optim.AdamW(decoder.parameters(), how.lr, betas=(0.9, 0.99))
    steps, warm = max(1, how.steps), max(1, how.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (1 + math.cos(math.pi * step / steps)) / 2)
    )
    best, chosen = math.inf, decoder
    every = max(1, how.steps // _LOOKS)
    order = torch.empty(0, dtype=torch.long)
    for step in range(how.steps + 1):
        if step % every == 0 or step == how.steps:
            kept_loss = _loss(decoded(decoder, z_kept), x_kept, how.structure).item()
            tell(what, step, how.steps, f"loss {kept_loss:.4f}")
            if kept_loss < best:
                best, chosen = kept_loss, copy.deepcopy(decoder)
            if best < _ENOUGH or step == how.steps:
                break
        if not len(order):
            order = torch.randperm(len(x), generator=generator)
        picked, order = order[: how.batch], order[how.batch :]
        guess = decoder(noisy(z[picked]))
        inside = guess.clamp(0, 1)
        # Beyond black is black: only a little of the gradient is kept there, to find the way back if that was wrong.
        loss = _loss(inside + _LEAK * (guess - inside), x[picked], how.structure)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    tell(what, how.steps, how.steps, f"loss {best:.4f}")
    return chosen


def _noise(z: Tensor, amount: float) -> Callable[[Tensor], Tensor]:
    """Adds noise in proportion to the spread of each feature, from torch's global generator."""
    if not amount:
        return lambda part: part
    scale = amount * z.std(0, correction=0, keepdim=True)  # unbiased, it would be NaN for a single pair
    return lambda part: part + scale * torch.randn_like(part)


@torch.no_grad()
def decoded(decoder: Decoder, z: Tensor) -> Tensor:
    """Images in [0, 1], a batch at a time."""
    return torch.cat([decoder(part).clamp(0, 1) for part in torch.split(z, 256)])


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
