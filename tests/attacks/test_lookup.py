"""Looking smashed data up among those of public samples: place by place where there are places."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks.lookup import Lookup
from splitbench.core.layout import Layout, by_rank
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.metrics.field_accuracy import FieldAccuracy
from tests.attacks._scene import EVERYTHING, Columns, Embeddings, Scene, scene


def found(made: Scene, attack: Lookup | None = None) -> Tensor:
    guess = (attack or Lookup()).run(made.view, generator(0)).inputs
    assert guess is not None
    return guess


def test_at_the_word_embeddings_every_word_that_is_public_is_recovered_exactly() -> None:
    with scene(Embeddings, modality="text", targets=64) as made:
        assert made.view.auxiliary is not None
        assert set(made.truth.flatten().tolist()) <= set(made.view.auxiliary.x.flatten().tolist())
        assert torch.equal(found(made), made.truth)
        assert made.view.query is not None
        assert made.view.query.left == 0


def test_a_word_that_is_not_public_is_taken_for_another_and_the_others_are_still_right() -> None:
    with scene(Embeddings, modality="text", targets=64) as made:
        assert made.view.auxiliary is not None
        public = made.view.auxiliary
        view = replace(made.view, auxiliary=replace(public, x=torch.where(public.x == 7, 0, public.x)))
        guess = found(replace(made, view=view))
    known = made.truth != 7
    assert torch.equal(guess[known], made.truth[known])
    assert not known.all()
    assert (guess[~known] != 7).all()


def test_a_text_whose_features_have_no_places_is_taken_for_the_nearest_public_one() -> None:
    class Pooled(Embeddings):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).mean(1)

    with scene(Pooled, modality="text", targets=8) as made:
        assert made.view.auxiliary is not None
        public = made.view.auxiliary.x
        distances = torch.stack([(made.client(public) - z).norm(dim=1) for z in made.view.merged])
        assert torch.equal(found(made), public[distances.argmin(1)])
        # A target that is public itself is found.
        twins = replace(made.view, targets=made.client(public[3:5])[None])
    with scene(Pooled, modality="text", targets=8) as made:
        guess = found(replace(made, view=replace(twins, query=made.view.query)))
        assert torch.equal(guess, public[3:5])


def test_of_a_table_every_field_is_looked_up_in_its_own_column() -> None:
    with scene(Columns, modality="tabular", targets=64) as made:
        guess = found(made)
        categories = torch.tensor([field.categories > 0 for field in made.view.fields])
        assert torch.equal(guess[:, categories], made.truth[:, categories])
        # Of 256 standard normal numbers one is near to nearly any.
        assert (guess - made.truth).abs().median() < 0.05
        assert float(FieldAccuracy()(guess, made.true()).mean()) > 0.95
        assert made.view.auxiliary is not None
        for at in range(len(made.view.fields)):
            assert set(guess[:, at].tolist()) <= set(made.view.auxiliary.x[:, at].tolist())


def test_fields_that_are_not_said_to_be_any_are_looked_up_row_by_row() -> None:
    class Flat(Columns):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).flatten(1)

    with scene(Flat, modality="tabular", targets=8) as made:
        assert made.view.layout == by_rank((32,))
        assert made.view.auxiliary is not None
        public = {tuple(row) for row in made.view.auxiliary.x.tolist()}
        assert {tuple(row) for row in found(made).tolist()} <= public


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_it_asks_no_more_than_it_was_granted_however_many_at_a_time(batch: int) -> None:
    with scene(Embeddings, replace(EVERYTHING, queries=50), modality="text") as made:
        assert found(made, Lookup(batch=batch)).shape == made.truth.shape
        assert made.view.query is not None
        assert made.view.query.left == 0


def test_rounds_of_noise_are_merged_on_both_sides() -> None:
    draws = generator(5)
    right = []
    for rounds in (1, 32):
        threat = replace(EVERYTHING, rounds=rounds)
        with scene(Embeddings, threat, 64, "text", lambda z: z + 2 * torch.randn(z.shape, generator=draws)) as made:
            right.append(float((found(made) == made.truth).double().mean()))
    assert right[0] < 0.8 < 0.95 < right[1]


def test_tokens_that_stand_for_no_word_are_left_out() -> None:
    class Marked(Embeddings):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.pad(super().forward(x), (0, 0, 1, 0))

    with seeded(0), scene(Marked, modality="text", targets=4) as made:
        view = replace(made.view, layout=Layout("tokens", tuple(made.view.merged.shape[1:]), prefix=1))
        assert torch.equal(found(replace(made, view=view)), made.truth)


def test_it_needs_public_samples_and_queries() -> None:
    assert "queries=1" in (Lookup().lacks(ThreatModel(auxiliary=5)) or "")
    assert "auxiliary=1" in (Lookup().lacks(ThreatModel(queries=5)) or "")
