"""The attackers that look at nothing, against computations one image at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from splitbench.attacks._floors.floor import Floor
from splitbench.attacks.black import Black
from splitbench.attacks.class_mean import ClassMean
from splitbench.attacks.coin import Coin
from splitbench.attacks.majority import Majority
from splitbench.attacks.mean_image import MeanImage
from splitbench.attacks.nearest_auxiliary import NearestAuxiliary
from splitbench.attacks.prior import Prior
from splitbench.core.data import Field
from splitbench.core.errors import SplitbenchError
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, View
from splitbench.metrics.auc import AUC

GRANTED = ThreatModel(labels=True, auxiliary=40)


def a_view(labels: Tensor | None, public: Tensor, threat: ThreatModel = GRANTED) -> View:
    x = torch.rand(len(public), 3, 5, 4, generator=generator(1))
    count = 6 if labels is None else len(labels)
    return View(threat, torch.zeros(1, count, 7), (3, 5, 4), 4, (), labels=labels, auxiliary=Auxiliary(x, public))


def guess(floor: Floor, view: View) -> Tensor:
    found = floor.run(view, generator(0)).inputs
    assert found is not None
    return found


def medoid(x: Tensor) -> Tensor:
    """By every pair of images."""
    return x[torch.stack([(x - one).square().mean() for one in x]).argmin()]


def test_black_is_black() -> None:
    assert torch.equal(guess(Black(), a_view(None, torch.zeros(3), ThreatModel())), torch.zeros(6, 3, 5, 4))


def test_the_mean_image_is_the_mean_for_every_target() -> None:
    view = a_view(None, torch.zeros(40))
    assert view.auxiliary is not None
    assert torch.allclose(guess(MeanImage(), view), torch.stack([view.auxiliary.x.mean(0)] * 6))


def test_the_class_mean_is_of_the_class_and_of_all_images_where_the_class_has_none() -> None:
    public = torch.tensor([0, 1, 2, 1] * 10)
    view = a_view(torch.tensor([2, 0, 3, 1]), public)
    assert view.auxiliary is not None
    x = view.auxiliary.x
    expected = torch.stack([x[public == 2].mean(0), x[public == 0].mean(0), x.mean(0), x[public == 1].mean(0)])
    assert torch.allclose(guess(ClassMean(), view), expected, atol=1e-6)


def test_for_attributes_the_class_is_whoever_agrees_in_most() -> None:
    public = torch.tensor([[0, 0, 1], [1, 1, 1], [0, 0, 0]])
    view = a_view(torch.tensor([[1, 1, 0], [0, 0, 1]]), public)
    assert view.auxiliary is not None
    assert torch.allclose(guess(ClassMean(), view), view.auxiliary.x[[1, 0]], atol=1e-6)


def test_the_nearest_auxiliary_image_is_the_medoid_of_all_or_of_the_class() -> None:
    public = torch.tensor([0, 1, 2, 1] * 10)
    wanted = torch.tensor([2, 0, 3, 1])
    blind, told = a_view(None, public), a_view(wanted, public)
    assert blind.auxiliary is not None
    x = blind.auxiliary.x
    assert torch.equal(guess(NearestAuxiliary(), blind), torch.stack([medoid(x)] * 6))
    classes = [x[public == k] if k < 3 else x for k in wanted.tolist()]
    assert torch.equal(guess(NearestAuxiliary(), told), torch.stack([medoid(c) for c in classes]))


@pytest.mark.parametrize(
    "floor", [Black(), MeanImage(), ClassMean(), NearestAuxiliary()], ids=lambda f: type(f).__name__
)
def test_what_was_sent_has_no_influence_even_if_it_is_not_a_number(floor: Floor) -> None:
    view = a_view(torch.tensor([2, 0, 3, 1]), torch.tensor([0, 1, 2, 1] * 10))
    assert torch.equal(guess(floor, view), guess(floor, replace(view, targets=torch.full((2, 4, 9, 2), torch.nan))))


@pytest.mark.parametrize(
    ("floor", "said"),
    [(MeanImage(), "needs auxiliary=1"), (ClassMean(), "needs labels=true"), (NearestAuxiliary(), "needs auxiliary=1")],
    ids=["mean_image", "class_mean", "nearest_auxiliary"],
)
def test_a_floor_without_its_means_says_so(floor: Floor, said: str) -> None:
    with pytest.raises(SplitbenchError, match=said):
        floor.run(View(ThreatModel(), torch.zeros(1, 2, 7), (3, 5, 4), 4, ()), generator(0))


def test_the_prior_is_the_commonest_word_at_each_place() -> None:
    public = torch.tensor([[3, 5, 9], [3, 6, 9], [4, 6, 9]])
    view = View(GRANTED, torch.zeros(1, 4, 7), (3,), 2, (), "text", auxiliary=Auxiliary(public, torch.zeros(3).long()))
    assert guess(Prior(), view).tolist() == [[3, 6, 9]] * 4
    assert guess(Prior(), view).dtype == torch.int64


def test_the_prior_of_a_table_is_the_commonest_category_and_the_mean_number_beyond_any_pixel() -> None:
    public = torch.tensor([[2.5, 6.0], [3.75, 6.0], [-0.5, 1.0]])
    view = View(
        GRANTED,
        torch.zeros(1, 2, 7),
        (2,),
        2,
        (),
        "tabular",
        (Field("height"), Field("city", 7)),
        auxiliary=Auxiliary(public, torch.zeros(3).long()),
    )
    expected = torch.tensor([[public[:, 0].mean(), 6.0]] * 2)
    torch.testing.assert_close(guess(Prior(), view), expected)


def test_a_number_that_happens_to_be_whole_is_still_a_number() -> None:
    public = torch.tensor([[1.0, 6.0], [2.0, 6.0], [6.0, 1.0]])
    view = View(
        GRANTED,
        torch.zeros(1, 1, 7),
        (2,),
        2,
        (),
        "tabular",
        (Field("height"), Field("city", 7)),
        auxiliary=Auxiliary(public, torch.zeros(3).long()),
    )
    assert guess(Prior(), view).tolist() == [[3.0, 6.0]]


def labels(view: View) -> Tensor:
    found = Majority().run(view, generator(0)).labels
    assert found is not None
    return found


def test_the_majority_is_the_commonest_label_and_without_any_the_first_class() -> None:
    assert labels(a_view(None, torch.tensor([2, 1, 2, 0, 2]))).tolist() == [2] * 6
    blind = View(ThreatModel(), torch.zeros(1, 3, 7), (3, 5, 4), 4, ())
    assert labels(blind).tolist() == [0] * 3


def test_the_majority_of_attributes_is_taken_one_by_one() -> None:
    assert labels(a_view(None, torch.tensor([[1, 0, 1], [1, 0, 0], [0, 1, 1]]))).tolist() == [[1, 0, 1]] * 6


def test_a_coin_is_fair_and_falls_as_its_generator_says() -> None:
    view = View(ThreatModel(), torch.zeros(1, 20_000, 1), (1,), 2, ())
    one, again = (Coin().run(view, generator(3)).membership for _ in range(2))
    assert one is not None
    assert again is not None
    assert torch.equal(one, again)
    truth = torch.arange(20_000) % 2
    auc = float(AUC()(one, Truth.of(truth)))
    assert auc == pytest.approx(0.5, abs=0.02)  # five standard errors
