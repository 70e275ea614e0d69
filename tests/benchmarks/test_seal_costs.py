"""What SEAL costs, as ratios: `pytest tests/benchmarks/test_seal_costs.py -n 0 --benchmark-only -s`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.core.defense import Context, Defense
from splitbench.core.member import Batch, Plan
from splitbench.core.message import About
from splitbench.core.party import CLIENT, SERVER
from splitbench.core.randomness import generator, seeded
from splitbench.core.schedule import together
from splitbench.core.split import SplitModel
from splitbench.core.wire import Wire
from splitbench.defenses.seal import SEAL
from splitbench.plan.cells import Training
from splitbench.runner.learner import Optimised
from splitbench.runner.parties import assemble, one_step
from splitbench.topologies.vanilla import Vanilla
from tests.benchmarks._least import least
from tests.defenses.test_seal import retained


def maps(*shape: int) -> Tensor:
    """As smooth as feature maps are."""
    coarse = torch.randn(*shape[:2], 8, 8, generator=generator(0))
    return F.interpolate(coarse, shape[2:], mode="bicubic") + 0.1 * torch.randn(*shape, generator=generator(1))


def test_a_batch_costs_little_more_than_four_products_and_far_less_than_the_loop(benchmark: Any) -> None:
    torch.set_num_threads(2)
    x, seal = maps(128, 64, 32, 32), SEAL(key=1)
    q = seal.bases(32, 32)[0].float()
    few = 20  # maps for the loop, which takes as long for each

    def products() -> None:
        q.T @ (q @ x @ q.T) @ q

    def loop() -> None:
        """Algorithm 4 as it is written, on maps that are transformed already."""
        for one in spectra:
            z = one.clone()
            kept = retained(z, 0.7)
            for i in range(32):
                for j in range(32):
                    if (i, j) not in kept:
                        z[i, j] = 0

    spectra = (q @ x[0, :few] @ q.T).unbind()
    both = {"seal": lambda: seal.perturbed(x), "products": products}
    seconds = least(both, 8, lambda s: s["seal"] <= 2 * s["products"])
    slow = least({"loop": loop}, 2)["loop"] / few * 128 * 64
    benchmark.pedantic(lambda: seal.perturbed(x), rounds=1)
    ratio, times = seconds["seal"] / seconds["products"], slow / seconds["seal"]
    print(f"\nseal is {ratio:.2f} times its four products, and {times:.0f} times faster than algorithm 4's loop")
    benchmark.extra_info.update(ratio=ratio, times=times)
    assert ratio <= 2.0
    assert times >= 200


@pytest.mark.parametrize("side", [28, 32])
def test_a_training_step_is_little_dearer(benchmark: Any, side: int) -> None:
    """conv1 and bn1 of resnet18 at the client, the rest of it at the server."""
    from splitbench.models._timm.package import timm

    torch.set_num_threads(1)
    with seeded(0):
        whole = timm.create_model("resnet18", num_classes=10, in_chans=3)
    stem = nn.Sequential(whole.conv1, whole.bn1)
    layers = (nn.ReLU(), whole.maxpool, whole.layer1, whole.layer2, whole.layer3, whole.layer4)
    server = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), whole.fc)
    x, y = torch.rand(32, 3, side, side, generator=generator(0)), torch.arange(32) % 10
    model = SplitModel((stem, server), (CLIENT, SERVER))
    model.train()

    def step(defense: Defense) -> Callable[[], Any]:
        members, plan = assemble(model, Plan((32,)), defense, Context(), 0, F.cross_entropy)
        for member in members.values():
            member.learner = Optimised(member.stages, Training(optimizer="sgd", lr=1e-3), 1000)
        batches = {party: Batch(x, y, About.plain(0, torch.arange(32))) for party in plan.clients}
        wire = Wire()
        return lambda: together(
            one_step(Vanilla(), members, plan, batches), wire, lambda party: members[party].at_work()
        )

    both = {"seal": step(SEAL(key=1)), "none": step(Defense())}
    seconds = least(both, 8, lambda s: s["seal"] <= 1.3 * s["none"])
    benchmark.pedantic(both["seal"], rounds=1)
    ratio = seconds["seal"] / seconds["none"]
    print(f"\n{side}x{side}: a training step with seal is {ratio:.2f} of one without")
    benchmark.extra_info.update(ratio=ratio)
    assert ratio <= 1.3
