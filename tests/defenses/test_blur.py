"""Extremely low resolution, against averages and interpolations written out."""

from __future__ import annotations

import pytest
import torch

from splitbench.core.component import validated
from splitbench.core.defense import Context
from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Batch
from splitbench.core.message import About
from splitbench.defenses.blur import Blur


def blurred(x: torch.Tensor, learning: bool = True, **settings: float) -> torch.Tensor:
    rows = torch.arange(len(x))
    return Blur(**settings).inputs(Batch(x, rows, About.plain(0, rows), learning), None).x


def test_a_pixel_of_the_small_image_is_the_average_of_those_it_stands_for():
    x = torch.rand(2, 3, 28, 28, dtype=torch.float64)
    # Both sides become two pixels, a quarter of the image each; corners of the enlarged image are those.
    found = blurred(x, factor=14)
    for rows, row in ((slice(0, 14), 0), (slice(14, 28), 27)):
        for columns, column in ((slice(0, 14), 0), (slice(14, 28), 27)):
            torch.testing.assert_close(found[..., row, column], x[..., rows, columns].mean((2, 3)))


def test_between_the_small_pixels_values_are_interpolated_linearly():
    x = torch.zeros(1, 1, 4, 8, dtype=torch.float64)
    x[..., 4:] = 1  # the small image is 0, 1
    # Centres of the small pixels lie at 1.5 and 5.5: between them a straight line, outside of them constant.
    line = ((torch.arange(8, dtype=torch.float64) - 1.5) / 4).clamp(0, 1)
    torch.testing.assert_close(blurred(x, factor=4)[0, 0, 0], line)


def test_nothing_is_left_of_what_is_finer_than_a_small_pixel():
    checks = (torch.arange(28)[:, None] + torch.arange(28)) % 2
    torch.testing.assert_close(
        blurred(checks[None, None].double(), factor=14), torch.full((1, 1, 28, 28), 0.5).double()
    )


@pytest.mark.parametrize("learning", [True, False])
def test_training_and_inference_are_blurred_alike_and_shapes_stay(learning):
    x = torch.rand(2, 3, 30, 41)
    found = blurred(x, learning)
    assert found.shape == x.shape
    assert found.std() < 0.5 * x.std()
    assert torch.equal(found, blurred(x))


def test_a_factor_of_one_changes_nothing_and_a_huge_one_leaves_the_average():
    x = torch.rand(2, 3, 6, 6)
    assert blurred(x, factor=1) is x
    torch.testing.assert_close(blurred(x, factor=1000), x.mean((2, 3), keepdim=True).expand_as(x))


def test_anything_but_images_is_refused_with_what_to_take_instead():
    with pytest.raises(
        SplitbenchError, match=r"blur is for images, and a sample here has shape \(39,\); take gaussian"
    ):
        Blur().bind(Context(sample=(39,)))
    with pytest.raises(SplitbenchError, match="blur is for images"):
        blurred(torch.rand(4, 39))
    assert Blur().bind(Context(sample=(3, 32, 32))).factor == 14


def test_enlarging_is_a_mistake():
    _, mistakes = validated(Blur, {"factor": 0.5}, "")
    assert [m.where for m in mistakes] == ["factor"]
