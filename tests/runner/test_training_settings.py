"""What makes a victim learn: augmentation, schedules, smoothed labels and precision, each against a plain loop."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from splitbench.plan.cells import Training
from splitbench.runner import runfolder
from splitbench.runner.augment import augmented
from splitbench.runner.learner import Optimised, rate_factor
from splitbench.runner.prepare import prepare, task_loss
from splitbench.runner.train import train
from tests.runner._small import cells


def images(count: int = 5, channels: int = 2, height: int = 6, width: int = 7) -> torch.Tensor:
    return torch.randint(256, (count, channels, height, width), dtype=torch.uint8)


def test_crops_and_flips_are_those_of_a_loop_over_images() -> None:
    x, margin = images(), 2
    found = augmented(x, ("flip", "crop"), margin, torch.Generator().manual_seed(3))
    draws = torch.Generator().manual_seed(3)
    mirrored = torch.rand(len(x), generator=draws) < 0.5
    down, right = torch.randint(2 * margin + 1, (2, len(x), 1), generator=draws)
    for i, image in enumerate(x):
        wanted = F.pad(image.flip(2) if mirrored[i] else image, (margin,) * 4)
        wanted = wanted[:, down[i, 0] : down[i, 0] + 6, right[i, 0] : right[i, 0] + 7]
        assert_close(found[i], wanted, rtol=0, atol=0)


@given(margin=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_crop_shows_pixels_of_its_own_image_or_black(margin: int, seed: int) -> None:
    x = torch.arange(1, 5, dtype=torch.uint8).view(4, 1, 1, 1).expand(4, 1, 5, 5).contiguous()
    found = augmented(x, ("crop",), margin, torch.Generator().manual_seed(seed))
    assert all(set(image.unique().tolist()) <= {0, i} for i, image in enumerate(found, start=1))


def test_what_is_not_asked_for_changes_nothing_and_draws_nothing() -> None:
    x, draws = images(), torch.Generator().manual_seed(0)
    before = draws.get_state()
    assert augmented(x, (), 3, draws) is x
    assert torch.equal(draws.get_state(), before)


def test_images_are_mirrored_each_for_itself() -> None:
    x = images(64, 1, 4, 4)
    found = augmented(x, ("flip",), 3, torch.Generator().manual_seed(0))
    mirrored = [torch.equal(a, b.flip(2)) for a, b in zip(found, x, strict=True)]
    assert 16 < sum(mirrored) < 48
    assert all(m or torch.equal(a, b) for m, a, b in zip(mirrored, found, x, strict=True))


def test_one_cycle_rises_for_three_tenths_and_falls_as_a_cosine_to_nothing() -> None:
    training = Training(schedule="one_cycle")
    rates = [rate_factor(training, at / 1000) for at in range(1001)]
    assert max(rates) == rates[300] == pytest.approx(1)
    assert rates[:301] == sorted(rates[:301])
    assert rates[300:] == sorted(rates[300:], reverse=True)
    assert rates[-1] == pytest.approx(0, abs=1e-12)
    assert rates[650] == pytest.approx(0.5 * (1 + math.cos(math.pi * 0.5)))


def test_a_warm_up_is_linear_and_a_cosine_follows() -> None:
    training = Training(epochs=10, warmup=2, schedule="cosine")
    assert rate_factor(training, 0.1) == pytest.approx(0.5, abs=1e-3)
    assert rate_factor(training, 0.6) == pytest.approx(0.5)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_learner_takes_the_steps_of_torchs_own_optimizer(optimizer: str) -> None:
    training = Training(optimizer=optimizer, lr=0.1, weight_decay=0.01, schedule="one_cycle")  # type: ignore[arg-type]
    torch.manual_seed(0)
    layer, plain = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    plain.load_state_dict(layer.state_dict())
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    options = {"momentum": 0.9} if optimizer == "sgd" else {}
    by_hand = kinds[optimizer](plain.parameters(), lr=0.1, weight_decay=0.01, **options)  # type: ignore[operator]
    learner = Optimised([layer], training, steps=5)
    for step in range(5):
        x = torch.rand(4, 3)
        learner.zero_grad()
        layer(x).square().sum().backward()
        learner.step()
        by_hand.param_groups[0]["lr"] = 0.1 * rate_factor(training, step / 5)
        by_hand.zero_grad()
        plain(x).square().sum().backward()
        by_hand.step()
    assert_close(dict(layer.named_parameters()), dict(plain.named_parameters()))


def test_smoothed_labels_are_mixed_with_every_class() -> None:
    logits, y = torch.randn(6, 4), torch.randint(4, (6,))
    soft = 0.9 * F.one_hot(y, 4) + 0.1 / 4
    assert_close(task_loss("classes", 0.1)(logits, y), -(soft * logits.log_softmax(1)).sum(1).mean())
    assert_close(task_loss("classes")(logits, y), F.cross_entropy(logits, y))


def test_attributes_are_smoothed_towards_a_half() -> None:
    logits, y = torch.randn(6, 4), torch.randint(2, (6, 4))
    wanted = F.binary_cross_entropy_with_logits(logits, y * 0.8 + 0.1)
    assert_close(task_loss("attributes", 0.2)(logits, y), wanted)


def test_half_precision_trains_float32_weights_and_is_another_run() -> None:
    whole, half = (cells(training={"epochs": 1, "batch": 32, "precision": p})[0].run for p in ("float32", "bf16"))
    assert whole.key != half.key
    one, other = (train(prepare(run)) for run in (whole, half))
    states = [runfolder.state(trained.prepared) for trained in (one, other)]
    assert all(value.dtype != torch.bfloat16 for value in states[1].values())
    assert any(not torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert other.losses[-1] == pytest.approx(one.losses[-1], rel=0.05)
    sent = [sum(trained.wire.traffic.values()) for trained in (one, other)]
    assert sent[0] == sent[1]  # what crosses is float32 whatever the layers compute in
