"""What shuffling costs the edge, as ratios; `pytest -n 0 --benchmark-only -s` with this file prints them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from splitbench.core.defense import Context, Defense
from splitbench.core.member import Batch
from splitbench.core.message import About
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import output_shape
from splitbench.defenses.batch_shuffle import BatchShuffle
from splitbench.defenses.half_spectral_shuffle import HalfSpectralShuffle
from splitbench.defenses.patch_shuffle import PatchShuffle
from splitbench.defenses.spectral_shuffle import SpectralShuffle
from splitbench.methods.shuffling.orders import share_kept, within_images
from splitbench.models.vit_tiny import ViTTiny
from tests.benchmarks._least import least

COUNT, SHAPE = 8, (3, 224, 224)
MODEL = ViTTiny(patch=16, width=768, heads=12, depth=2)  # the edge of ViT-B/16: its embedding and first block


def edge(defense: Defense) -> Callable[[], Tensor]:
    """What a client does for a batch, until something leaves it."""
    with seeded(0, "benchmark"):
        whole = MODEL.build(SHAPE, 40)
        split = MODEL.split(whole, ("block1",))
    layout = MODEL.layout("block1", whole, output_shape(split.stages[0], SHAPE, torch.float32), SHAPE)
    bound = defense.bind(Context(layout, 40, tokens=MODEL.tokens, sample=SHAPE))
    stage = bound.prepare(split).stages[0].eval().requires_grad_(False)
    x = torch.rand(COUNT, *SHAPE, generator=generator(0))
    batch = Batch(x, torch.zeros(COUNT, dtype=torch.long), About.plain(0, torch.arange(COUNT)))
    draws = generator(1)
    return lambda: stage(*bound.inputs(batch, draws).given)


@pytest.mark.parametrize(
    ("defense", "most"),
    [
        (PatchShuffle(), 1.05),
        (BatchShuffle(k=0.4), 1.05),
        (SpectralShuffle(), 0.5),  # it has no block at the edge
        (HalfSpectralShuffle(), 0.5),
    ],
    ids=str,
)
def test_a_shuffled_batch_costs_the_edge_at_most_a_twentieth_more(
    benchmark: Any, defense: Defense, most: float
) -> None:
    torch.set_num_threads(1)
    both = {"shuffled": edge(defense), "none": edge(Defense())}
    seconds = least(both, 5, lambda s: s["shuffled"] <= most * s["none"], time.process_time)
    benchmark.pedantic(both["shuffled"], rounds=1)
    ratio = seconds["shuffled"] / seconds["none"]
    print(f"\n{defense}: {ratio:.3f} of the undefended edge")
    benchmark.extra_info.update(ratio=ratio)
    assert ratio <= most


def test_drawing_orders_for_fifty_images_is_nothing_beside_the_forward_pass_of_eight(benchmark: Any) -> None:
    torch.set_num_threads(1)
    draws = generator(2)
    sides: dict[str, Callable[[], Any]] = {
        "within": lambda: within_images(50, 196, draws),
        "across": lambda: share_kept(0.4, True, 50, 196, draws),
        "edge": edge(Defense()),
    }
    seconds = least(sides, 5, lambda s: max(s["within"], s["across"]) <= 0.02 * s["edge"], time.process_time)
    benchmark.pedantic(sides["across"], rounds=1)
    within, across = (seconds[name] / seconds["edge"] for name in ("within", "across"))
    print(
        f"\norders of 50 x 196 tokens: {within:.4f} within images, {across:.4f} across them, of the edge's forward pass"
    )
    benchmark.extra_info.update(within=within, across=across)
    assert max(within, across) <= 0.02
