"""What the attacks cost, as ratios: `pytest tests/benchmarks/test_attacks.py -n 0 --benchmark-only -s`.

Both sides of a ratio alternate, so that what else the machine does falls on both alike; the least of each is compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._critic import Critic, wasserstein
from splitbench.attacks._descent import descend, draw
from splitbench.attacks._grid import Grid
from splitbench.attacks._mmd import mk_mmd
from splitbench.attacks._substitute import Substitute
from splitbench.attacks.unsplit import UnSplit
from splitbench.bench.score import READOUTS
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import View
from splitbench.metrics.ssim import SSIM

IMAGES = 64


def stem(channels: int) -> nn.Module:
    """conv1 and bn1 of resnet18."""
    return nn.Sequential(nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64))


def least(sides: dict[str, Callable[[], Any]], rounds: int = 5) -> dict[str, float]:
    """The least seconds of each side, in turns."""
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            begun = time.perf_counter()
            side()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def blobs(shape: tuple[int, int, int], count: int) -> Tensor:
    """Smooth pictures, so that there is something to recover."""
    coarse = torch.rand(count, shape[0], 5, 5, generator=generator(0))
    return F.interpolate(coarse, shape[1:], mode="bicubic").clamp(0, 1)


def one_at_a_time(client: nn.Module, images: Tensor, outer: int, inner: int) -> Tensor:
    """The original's loop: one image after another, the clone handed on, the target never detached."""
    found = []
    with seeded(1):
        clone = stem(images.shape[1]).eval()
    on_clone = torch.optim.Adam(clone.parameters(), 1e-3, amsgrad=True)
    for image in images:
        target = client(image[None])
        x = torch.full_like(image[None], 0.5).requires_grad_()
        on_x = torch.optim.Adam([x], 1e-3, amsgrad=True)
        for _ in range(outer):
            for learning, fixed in ((on_x, False), (on_clone, True)):
                for _ in range(inner):
                    learning.zero_grad()
                    loss = F.mse_loss(clone(x), target)
                    if not fixed:
                        down, across = x[..., 1:, :] - x[..., :-1, :], x[..., 1:] - x[..., :-1]
                        variation = (down.square().sum() + across.square().sum()) / x.numel()
                        loss = loss + 0.1 * variation + x.square().mean()
                    loss.backward(retain_graph=True)
                    learning.step()
        found.append(x.detach()[0])
    return torch.stack(found)


@pytest.mark.parametrize(("shape", "times"), [((1, 28, 28), 8.0), ((3, 32, 32), 4.0)])
def test_unsplit_recovers_all_images_at_once(benchmark: Any, shape: tuple[int, int, int], times: float) -> None:
    torch.set_num_threads(2)
    with seeded(0):
        client = stem(shape[0]).eval()
    images = blobs(shape, IMAGES)
    attack = UnSplit(outer=8, inner=10, starts=1)
    view = View(
        threat=ThreatModel(architecture=True),
        targets=client(images).detach(),
        shape=shape,
        classes=10,
        stages=(),
        template=lambda: stem(shape[0]),
    )
    few = 8  # the loop takes as long for each; the rest is extrapolated
    found: dict[str, Tensor] = {}

    def loop() -> None:
        found["loop"] = one_at_a_time(client, images[:few], attack.outer, attack.inner)

    def together() -> None:
        guess = attack.run(view, generator(0)).inputs
        assert guess is not None
        found["together"] = guess

    seconds = least({"loop": loop, "together": together}, rounds=3)
    benchmark.pedantic(together, rounds=1)
    ratio = (seconds["loop"] / few) / (seconds["together"] / IMAGES)
    ssim = {
        name: SSIM()(READOUTS["minmax"](guess), images[: len(guess)]).mean().item() for name, guess in found.items()
    }
    print(f"\n{shape}: {ratio:.1f} times as many images a second; ssim {ssim['together']:.3f}, loop {ssim['loop']:.3f}")
    benchmark.extra_info.update(ratio=ratio, **ssim)
    assert ratio >= times
    assert ssim["together"] >= ssim["loop"]


def fora_sides(width: int, blocks: int, batch: int) -> dict[str, Callable[[], Any]]:
    grid, shape = Grid(64, 14, 14, shape=(64, 14, 14)), (1, 28, 28)
    with seeded(0):
        client, critic = Substitute(grid, shape, False), Critic(grid, width, blocks)
    pool, x = torch.randn(512, 64, 14, 14, generator=generator(1)), blobs(shape, 512)
    on_client = torch.optim.Adam(client.parameters(), 1e-4)
    on_critic = torch.optim.Adam(critic.parameters(), 3e-4)
    draws = generator(2)
    real, images = pool[:batch], x[:batch]
    between = real.clone().requires_grad_()
    made = client(images).detach().requires_grad_()

    def step() -> None:
        """As `FORA._align` takes it."""
        real, made = draw(pool, batch, draws), client(draw(x, batch, draws))
        score = critic(made).mean()
        descend(on_client, 0.2 * score + 0.8 * mk_mmd(real, made))
        descend(on_critic, wasserstein(critic, real, made.detach(), 10.0, "flat", draws))

    def passes() -> None:
        """Forward and backward of the same networks on the same amounts, and nothing else."""
        made = client(images)
        torch.autograd.grad(critic(made).sum(), list(client.parameters()))
        scores = critic(torch.cat((real, made.detach())))
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        torch.autograd.grad(scores.sum() + slope.square().sum(), list(critic.parameters()))

    def mmd() -> None:
        torch.autograd.grad(mk_mmd(real, made), made)

    return {"step": step, "passes": passes, "mmd": mmd}


# The desk's critic, and the paper's, against which MK-MMD is to be a trifle.
@pytest.mark.parametrize(("width", "blocks", "batch", "rounds", "most"), [(32, 1, 32, 12, 0.25), (256, 6, 64, 2, 0.05)])
def test_a_step_of_fora_is_little_more_than_its_passes(
    benchmark: Any, width: int, blocks: int, batch: int, rounds: int, most: float
) -> None:
    torch.set_num_threads(1)
    sides = fora_sides(width, blocks, batch)
    seconds = least(sides, rounds)
    benchmark.pedantic(sides["mmd"], rounds=1)
    ratio, share = seconds["step"] / seconds["passes"], seconds["mmd"] / seconds["step"]
    print(f"\nfora, critic {width} x {blocks}: a step is {ratio:.2f} bare passes; mk-mmd {100 * share:.1f} % of it")
    benchmark.extra_info.update(ratio=ratio, mmd=share)
    assert ratio <= 1.5
    assert share < most
