"""The decoder of tables: numbers and categories, in place or not, and its loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from splitbench.attacks._token_decoder.places import Places
from splitbench.attacks._token_decoder.rows import RowDecoder
from splitbench.attacks.field_decoder import FieldDecoder
from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.metrics.field_accuracy import FieldAccuracy
from splitbench.models.difm import DIFM
from splitbench.models.field_mlp import FieldMLP
from tests.attacks._scene import FIELDS, PLAIN, Scene, rows, scene

QUICK = FieldDecoder(steps=80)


def accuracy(found: Tensor | None, made: Scene) -> float:
    assert found is not None
    return float(FieldAccuracy()(found, Truth(made.truth, modality="tabular", fields=FIELDS)).mean())


def floor(made: Scene) -> float:
    x, _ = rows(256, 2)
    numbers = torch.tensor([field.categories == 0 for field in FIELDS])
    return accuracy(torch.where(numbers, x.mean(0), x.mode(0).values).expand_as(made.truth), made)


@pytest.mark.parametrize("cut", ["fields", "edge", "hidden1"])
def test_it_beats_the_floor_on_both_networks_of_tables(cut: str) -> None:
    model = DIFM() if cut == "edge" else FieldMLP()
    depth = {"fields": 1, "edge": 3, "hidden1": 2}[cut]

    def client() -> torch.nn.Module:
        return model.build((len(FIELDS),), 2, FIELDS)[:depth]  # type: ignore[index, no-any-return]

    with scene(client, targets=64, modality="tabular") as made:
        assert accuracy(QUICK.run(made.view, generator(0)).inputs, made) > floor(made) + 0.2


def test_fields_without_an_order_are_told_apart_by_what_they_hold() -> None:
    """Each row in an order of its own, targets and queries alike."""
    draws = generator(4)

    def disguise(z: Tensor) -> Tensor:
        order = torch.rand(z.shape[:2], generator=draws).argsort(1)
        return z.gather(1, order[..., None].expand_as(z))

    with scene(PLAIN["tabular"], targets=64, modality="tabular", disguise=disguise) as made:
        assert accuracy(FieldDecoder(steps=250).run(made.view, generator(0)).inputs, made) > floor(made) + 0.1


def test_the_loss_is_squared_error_of_numbers_and_cross_entropy_of_categories() -> None:
    fields = (Field("a"), Field("b", 3))
    decoder = RowDecoder(Places.of(Layout("fields", (2, 4))), fields, 8, 0, 2)
    for head in decoder.heads:
        torch.nn.init.zeros_(head.weight)  # type: ignore[arg-type]
        torch.nn.init.zeros_(head.bias)  # type: ignore[arg-type]
    x = torch.tensor([[2.0, 1.0], [0.0, 2.0]])
    assert float(decoder.loss(torch.randn(2, 2, 4), x).detach()) == pytest.approx((2.0 + math.log(3)) / 2)


def test_rows_are_numbers_and_whole_categories_within_range() -> None:
    with scene(PLAIN["tabular"], modality="tabular") as made:
        found = FieldDecoder(steps=1).run(made.view, generator(0)).inputs
    assert found is not None
    for at, field in enumerate(FIELDS):
        if field.categories:
            assert torch.equal(found[:, at], found[:, at].round())
            assert 0 <= float(found[:, at].min()) <= float(found[:, at].max()) < field.categories


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with (
        scene(PLAIN["tabular"], modality="tabular") as made,
        pytest.raises(SplitbenchError, match="width=10 is not a multiple of heads=4"),
    ):
        FieldDecoder(width=10).run(made.view, generator(0))
