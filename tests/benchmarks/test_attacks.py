"""What the attacks cost, as ratios: `pytest tests/benchmarks/test_attacks.py -n 0 --benchmark-only -s`.

Both sides of a ratio alternate, so that what else the machine does falls on both alike; the least of each is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._alignment.critic import Critic, wasserstein
from splitbench.attacks._alignment.mmd import mk_mmd
from splitbench.attacks._alignment.substitute import Substitute
from splitbench.attacks._decoding.grid import Grid
from splitbench.attacks._steps.descent import descend, draw
from splitbench.attacks.fora import FORA
from splitbench.attacks.fsa import FSA, _Generator
from splitbench.attacks.fsha import FSHA
from splitbench.attacks.sdar import SDAR
from splitbench.attacks.unsplit import UnSplit
from splitbench.core.message import Message
from splitbench.core.metric import Truth
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, View
from splitbench.metrics.ssim import SSIM
from splitbench.runner.score import READOUTS
from tests.benchmarks._least import least

IMAGES = 64


def stem(channels: int) -> nn.Module:
    """conv1 and bn1 of resnet18."""
    return nn.Sequential(nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64))


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
        targets=client(images).detach()[None],
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

    def faster(seconds: dict[str, float]) -> float:
        return (seconds["loop"] / few) / (seconds["together"] / IMAGES)

    seconds = least({"loop": loop, "together": together}, 3, lambda seconds: faster(seconds) >= times)
    benchmark.pedantic(together, rounds=1)
    ratio = faster(seconds)

    def similar(guess: Tensor) -> float:
        return SSIM()(READOUTS["minmax"](guess), Truth.of(images[: len(guess)])).mean().item()

    ssim = {name: similar(guess) for name, guess in found.items()}
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


DESK = FORA()


# The desk's critic, and the paper's.
@pytest.mark.parametrize(
    ("width", "blocks", "batch", "rounds"),
    [(DESK.critic_width, DESK.critic_blocks, DESK.batch, 20), (256, 6, 64, 2)],
)
def test_a_step_of_fora_is_little_more_than_its_passes(
    benchmark: Any, width: int, blocks: int, batch: int, rounds: int
) -> None:
    torch.set_num_threads(1)
    sides = fora_sides(width, blocks, batch)

    def ratios(seconds: dict[str, float]) -> tuple[float, float]:
        return seconds["step"] / seconds["passes"], seconds["mmd"] / seconds["step"]

    def little(seconds: dict[str, float]) -> bool:
        ratio, share = ratios(seconds)
        return ratio <= 1.5 and share < 0.05

    seconds = least(sides, rounds, little)
    benchmark.pedantic(sides["mmd"], rounds=1)
    ratio, share = ratios(seconds)
    print(f"\nfora, critic {width} x {blocks}: a step is {ratio:.2f} bare passes; mk-mmd {100 * share:.1f} % of it")
    benchmark.extra_info.update(ratio=ratio, mmd=share)
    assert ratio <= 1.5
    assert share < 0.05


PUBLIC, SENT = 256, 64  # images of the adversary's own, and samples in a message


def stage() -> View:
    """What the attacks look at: conv1 and bn1 of resnet18 on 28x28, and a server of some layers."""
    shape = (1, 28, 28)
    with seeded(0):
        client = stem(1).train()
        blocks = [layer for _ in range(4) for layer in (nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())]
        server = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()
    x = blobs(shape, PUBLIC)
    return View(
        threat=ThreatModel(architecture=True, auxiliary=PUBLIC),
        targets=client(x[:IMAGES]).detach()[None],
        shape=shape,
        classes=10,
        stages=(server,),
        template=lambda: stem(1),
        auxiliary=Auxiliary(x, torch.arange(PUBLIC) % 10),
    )


def slopes(value: Tensor, *networks: nn.Module) -> None:
    torch.autograd.grad(value, [p for network in networks for p in network.parameters()])


def telling(critic: nn.Module, real: Tensor, made: Tensor, between: Tensor | None = None) -> None:
    """The passes of one step of a critic: over both kinds, and in between twice where its slope is penalised."""
    value = critic(torch.cat((real, made))).sum()
    if between is not None:
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        value = value + slope.square().sum()
    slopes(value, critic)


def sdar_sides(view: View, steps: int, width: int, blocks: int) -> dict[str, Callable[[], Any]]:
    attack, grid = (
        SDAR(steps=steps, critic_width=width, critic_blocks=blocks),
        Grid.of_view(view),
    )
    assert view.auxiliary is not None
    simulator, server = stem(1).train(), view.stages[0].requires_grad_(False)
    critic = Critic(grid, attack.critic_width, attack.critic_blocks, 0, attack.dropout)
    x, real = view.auxiliary.x[: attack.batch], view.merged[: attack.batch]

    def passes() -> None:
        for _ in range(steps):
            z = simulator(x)
            slopes(server(z).sum() + critic(z).sum(), simulator)
            telling(critic, real, z.detach())

    def step() -> None:
        assert view.auxiliary is not None
        attack._simulate(simulator, (view.merged, None), (view.auxiliary.x, None), view, generator(0))

    return {"step": step, "passes": passes}


def fsa_sides(view: View, steps: int, width: int, blocks: int) -> dict[str, Callable[[], Any]]:
    attack, theirs = (
        FSA(steps=steps, critic_width=width, critic_blocks=blocks),
        Grid.of_view(view),
    )
    ours = Grid(64, 14, 14, shape=(64, 14, 14))
    there, back = _Generator(ours, theirs, 1, False), _Generator(theirs, ours, 3, False)
    critics = [Critic(grid, attack.critic_width, attack.critic_blocks) for grid in (theirs, ours)]
    features = torch.randn(PUBLIC, 64, 14, 14, generator=generator(1))
    one, other = view.merged[: attack.batch], features[: attack.batch]
    between = [each.clone().requires_grad_() for each in (one, other)]

    def passes() -> None:
        for _ in range(steps):
            to, fro = there(other), back(one)
            slopes(there(fro).sum() + back(to).sum() + critics[0](to).sum() + critics[1](fro).sum(), there, back)
            telling(critics[0], one, to.detach(), between[0])
            telling(critics[1], other, fro.detach(), between[1])

    return {
        "step": lambda: attack._sniff(there, back, features, view.merged, view, generator(0)),
        "passes": passes,
    }


def fsha_sides(view: View, steps: int, width: int, blocks: int) -> dict[str, Callable[[], Any]]:
    attack = FSHA(warm=1, critic_width=width, critic_blocks=blocks)
    attack.begin(view, generator(0))
    smashed = Message(CLIENT, SERVER, "smashed", view.merged[:SENT])
    honest = smashed.reply("gradient", torch.zeros_like(smashed.tensor))

    def tampered() -> None:
        attack.hear(smashed)
        attack.tamper(honest)

    tampered()
    assert attack.hijack is not None
    critic, public = attack.hijack.critic, attack.hijack.public[: attack.batch]
    sent, between = (each.clone().requires_grad_() for each in (view.merged[:SENT], public))

    def passes() -> None:
        for _ in range(steps):
            torch.autograd.grad(critic(sent).sum(), sent)
            telling(critic, public, sent.detach()[: attack.batch], between)

    def step() -> None:
        for _ in range(steps):
            tampered()

    return {"step": step, "passes": passes}


@pytest.mark.parametrize(
    ("sides", "width", "blocks", "rounds", "most"),
    [
        (sdar_sides, 32, 1, 8, 1.5),
        (fsa_sides, 32, 1, 8, 1.5),
        (fsha_sides, 32, 1, 8, 1.5),
        (fsha_sides, 256, 6, 2, 1.5),
    ],
)
def test_a_step_of_the_others_is_little_more_than_its_passes(
    benchmark: Any, sides: Any, width: int, blocks: int, rounds: int, most: float
) -> None:
    torch.set_num_threads(1)
    both = sides(stage(), 1, width, blocks)
    seconds = least(both, rounds, lambda seconds: seconds["step"] <= most * seconds["passes"])
    benchmark.pedantic(both["step"], rounds=1)
    ratio = seconds["step"] / seconds["passes"]
    print(f"\n{sides.__name__.split('_')[0]}, critic {width} x {blocks}: a step is {ratio:.2f} bare passes")
    benchmark.extra_info.update(ratio=ratio)
    assert ratio <= most
