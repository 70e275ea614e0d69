"""Shuffled tokens: their patches, and where these were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks.batch_jigsaw import BatchJigsaw
from splitbench.attacks.jigsaw import Jigsaw
from splitbench.attacks.patch_set import PatchSet
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.layout import Layout
from splitbench.core.metric import Truth
from splitbench.core.randomness import generator, seeded
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View
from splitbench.methods.shuffling.orders import across_batch, within_images
from splitbench.methods.shuffling.patches import patched
from splitbench.metrics.ssim import SSIM
from tests.attacks._tokens import PATCH, PLACES, SIDE, pictures

QUICK = {"steps": 30, "width": 32, "blocks": 1}
SOLVERS = ("merging", "learned", "best")


class Embedding(nn.Module):
    """A linear token for each patch, in the order asked for, behind a class token."""

    def __init__(self) -> None:
        super().__init__()
        with seeded(0):
            self.embed = nn.Linear(3 * PATCH**2, 64)
        self.requires_grad_(False)

    def forward(self, x: Tensor, order: Tensor | None = None) -> Tensor:
        tokens = self.embed(patched(x, x.shape[2] // PATCH, x.shape[3] // PATCH))
        if order is not None:
            tokens = tokens.flatten(0, 1)[order]
        return torch.cat((torch.ones_like(tokens[:, :1]), tokens), 1)


@contextmanager
def shuffled(
    truth: Tensor, public: Tensor, batch: int = 1, defended: bool = True, weights: bool = False
) -> Iterator[View]:
    """What the server sees of a client that shuffles patches or, with batches of more than one, batches."""
    client, draws = Embedding(), generator(5, "orders")
    rows, columns = truth.shape[2] // PATCH, truth.shape[3] // PATCH
    places = rows * columns

    def order(count: int) -> Tensor | None:
        if not defended:
            return None
        return (
            within_images(count, places, draws) if batch == 1 else across_batch(count, places, 2 * places // 5, draws)
        )

    def ask(x: Tensor) -> Tensor:
        together = 32 if batch == 1 else batch
        return torch.cat([client(part, order(len(part))) for part in torch.split(x, together)])[None]

    sent = ask(truth)
    with Query.open(ask, len(public)) as query:
        yield View(
            threat=ThreatModel(auxiliary=len(public), queries=len(public), weights=weights),
            targets=sent,
            shape=tuple(truth.shape[1:]),
            classes=2,
            stages=(),
            layout=Layout("tokens", tuple(sent.shape[2:]), 1, (rows, columns)),
            batch=batch,
            auxiliary=Auxiliary(public, torch.zeros(len(public))),
            client=(lambda: client) if weights else None,
            query=query,
        )


def lit(count: int, seed: int) -> Tensor:
    """Pictures with light from above and from the left, so that a patch says something of its place."""
    down, across = torch.linspace(-0.3, 0.3, SIDE)[:, None], torch.linspace(-0.3, 0.3, SIDE)
    light = torch.stack([down.expand(SIDE, SIDE), across.expand(SIDE, SIDE), down - across])
    return (0.5 + 0.5 * (pictures(count, seed) - 0.5) + light).clamp(0, 1)


def similar(attack: Any, view: View, truth: Tensor) -> Tensor:
    guess = attack.run(view, generator(0)).inputs
    assert guess is not None
    return SSIM()(guess, Truth(truth))


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_undefended_four_by_four_is_solved_exactly(solver: Any) -> None:
    made = pictures if solver != "learned" else lit  # the network alone needs to know something of places
    truth = made(12, 1)
    with shuffled(truth, made(256, 2), defended=False) as view:
        guess = Jigsaw(solver=solver, steps=150, width=32, blocks=1).run(view, generator(0)).inputs
    assert guess is not None
    assert PLACES == 16
    right = (guess - truth).abs().flatten(1).amax(1) < 0.02
    # Merging sees borders alone, and a patch may continue another by chance.
    assert right.float().mean() >= (0.75 if solver == "merging" else 0.9)
    if solver == "best":
        assert right.all()


def test_a_real_face_enlarged_is_solved_exactly(shared_data: Path) -> None:
    from splitbench.methods.shuffling.patches import unpatched

    with np.load(shared_data / "lfw.npz") as arrays:
        faces = torch.from_numpy(arrays["x_train"][:8]).permute(0, 3, 1, 2).float() / 255
    truth = nn.functional.interpolate(faces, (128, 128), mode="bicubic").clamp(0, 1)
    from splitbench.attacks._jigsaw.board import Board, placed
    from splitbench.attacks._jigsaw.merging import merged

    board = Board(4, 4, (3, 128, 128), Layout("tokens", (16, 8), 0, (4, 4)))
    order = torch.rand(8, 16, generator=generator(0)).argsort(1)
    mixed = placed(board.patches(truth), order)
    assert torch.equal(unpatched(placed(mixed, merged(mixed, board)), (3, 128, 128), 4, 4), truth)


@pytest.mark.parametrize("weights", [False, True])
def test_patches_are_not_hidden_by_a_shuffle_only_their_order_is(weights: bool) -> None:
    truth = pictures(16, 1)
    with shuffled(truth, pictures(256, 2), weights=weights) as view:
        guess = PatchSet().run(view, generator(0)).inputs
    assert guess is not None
    true, found = patched(truth, 4, 4), patched(guess, 4, 4)
    assert torch.cdist(true, found).amin(2).max() < 0.02, "every patch is there"
    assert SSIM()(guess, Truth(truth)).mean() < 0.5, "and the image is not"


def test_the_jigsaw_undoes_patch_shuffling() -> None:
    truth = pictures(16, 1)
    with shuffled(truth, pictures(256, 2)) as view:
        assert similar(Jigsaw(**QUICK), view, truth).mean() > 0.95


def test_the_order_in_which_tokens_arrive_makes_no_difference() -> None:
    """Of flat images every order fits as well as any other: nothing may find the true one in what was received."""
    truth = torch.rand(8, 3, SIDE, SIDE, generator=generator(3))
    for solver in SOLVERS:
        with shuffled(truth, torch.rand(64, 3, SIDE, SIDE, generator=generator(4)), defended=False) as view:
            assert similar(Jigsaw(**{**QUICK, "solver": solver}), view, truth).mean() < 0.5


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_batch_jigsaw_undoes_batch_shuffling(solver: Any) -> None:
    truth, public = lit(20, 1), lit(256, 2)  # the last batch is smaller
    with shuffled(truth, public, batch=8) as view:
        apart = similar(Jigsaw(**{**QUICK, "solver": "merging"}), view, truth).mean()
    with shuffled(truth, public, batch=8) as view:
        together = similar(BatchJigsaw(**{**QUICK, "steps": 100, "solver": solver}), view, truth).mean()
    assert together > apart + 0.1
    if solver == "best":
        assert together > 0.8


def test_the_batch_jigsaw_works_where_rows_are_not_mixed() -> None:
    truth = pictures(8, 1)
    with shuffled(truth, pictures(256, 2)) as view:
        assert similar(BatchJigsaw(**QUICK), view, truth).mean() > 0.9


@pytest.mark.parametrize("kind", [PatchSet, Jigsaw, BatchJigsaw])
def test_a_cut_without_tokens_is_refused_in_a_sentence(kind: Any) -> None:
    truth = pictures(2, 1)
    with shuffled(truth, pictures(32, 2)) as view:
        flat = replace(view, targets=view.targets.flatten(2), layout=Layout("vector", (17 * 64,)))
        with pytest.raises(SplitbenchError, match="needs tokens that lie on a grid"):
            kind().run(flat, generator(0))
        odd = replace(view, shape=(3, 18, 16))
        with pytest.raises(SplitbenchError, match="whole patch of pixels"):
            kind().run(odd, generator(0))
        with pytest.raises(CellError, match="not finite"):
            kind().run(replace(view, targets=view.targets / 0), generator(0))


@pytest.mark.parametrize("kind", [PatchSet, Jigsaw, BatchJigsaw])
def test_queries_or_weights_are_needed_and_either_is_enough(kind: Any) -> None:
    assert kind().lacks(ThreatModel(auxiliary=9, queries=9)) is None
    assert kind().lacks(ThreatModel(auxiliary=9, weights=True)) is None
    assert "needs queries" in kind().lacks(ThreatModel(auxiliary=9))
    assert "needs auxiliary" in kind().lacks(ThreatModel(queries=9))
    assert "needs weights" in kind(blind="no").lacks(ThreatModel(auxiliary=9, queries=9))


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with shuffled(pictures(2, 1), pictures(32, 2)) as view, pytest.raises(SplitbenchError, match="not a multiple"):
        Jigsaw(width=30).run(view, generator(0))
