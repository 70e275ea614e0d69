"""Parts of the jigsaw against slower ways that are surely right."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from splitbench.attacks._jigsaw.arranging import Arranger, likings
from splitbench.attacks._jigsaw.assigning import assigned, liked
from splitbench.attacks._jigsaw.board import Board, placed
from splitbench.attacks._jigsaw.borders import candidates, energy, gaps
from splitbench.attacks._jigsaw.examples import Loss, varied
from splitbench.attacks._jigsaw.merging import merged, pieces, pooled
from splitbench.attacks._jigsaw.ridge import Ridge, blind
from splitbench.core.layout import Layout
from splitbench.core.randomness import generator, seeded
from splitbench.methods.shuffling.orders import across_batch, within_images
from tests.attacks._tokens import pictures


def board(rows: int, columns: int, patch: int = 4, channels: int = 3) -> Board:
    shape = (channels, rows * patch, columns * patch)
    return Board(rows, columns, shape, Layout("tokens", (rows * columns, 8), 0, (rows, columns)))


def one_by_one(patches: Tensor, board: Board) -> Tensor:
    """Gaps by the book: each border prolonged by half a pixel from its last two."""
    tiles = board.tiles(patches)
    count = len(tiles)
    found = torch.zeros(2, count, count)
    for i, j in itertools.product(range(count), repeat=2):
        a, b = tiles[i], tiles[j]
        right = a[:, :, -1] + (a[:, :, -1] - a[:, :, -2]) / 2
        left = b[:, :, 0] + (b[:, :, 0] - b[:, :, 1]) / 2
        down = a[:, -1] + (a[:, -1] - a[:, -2]) / 2
        up = b[:, 0] + (b[:, 0] - b[:, 1]) / 2
        found[0, i, j], found[1, i, j] = (right - left).square().mean(), (down - up).square().mean()
    return found


def test_gaps_equal_the_loop_over_all_pairs() -> None:
    on = board(2, 3)
    patches = torch.rand(2, 6, 48, generator=generator(0))
    expected = torch.stack([one_by_one(one, on) for one in patches])
    torch.testing.assert_close(gaps(patches, on), expected, atol=1e-5, rtol=1e-4)


def test_the_energy_of_an_arrangement_is_the_mean_of_the_gaps_in_it() -> None:
    on = board(2, 3)
    patches = torch.rand(1, 6, 48, generator=generator(0))
    right, down = one_by_one(patches[0], on)
    expected = (right[0, 1] + right[1, 2] + right[3, 4] + right[4, 5] + down[0, 3] + down[1, 4] + down[2, 5]) / 7
    torch.testing.assert_close(energy(patches, on)[0], expected)


def test_candidates_come_by_the_ratio_to_the_best_rival() -> None:
    on = board(2, 3)
    patches = torch.rand(6, 48, generator=generator(1))
    found = candidates(patches, on, 5)
    gap = one_by_one(patches, on)

    def ratio(first: int, second: int, down: bool) -> float:
        side = gap[int(down)]
        row = min(float(side[first, k]) for k in range(6) if k not in (first, second))
        column = min(float(side[k, second]) for k in range(6) if k not in (first, second))
        return float(side[first, second]) / row + float(side[first, second]) / column

    triples = list(zip(found.first.tolist(), found.second.tolist(), found.down.tolist(), strict=True))
    assert sorted(triples) == sorted((i, j, d) for i in range(6) for j in range(6) for d in (False, True) if i != j)
    ratios = [ratio(*triple) for triple in triples]
    assert ratios == pytest.approx(sorted(ratios), rel=1e-3)


def test_patches_of_one_pixel_have_gaps_too() -> None:
    on = board(4, 4, patch=1)
    assert gaps(torch.rand(1, 16, 3), on).isfinite().all()


def everything(unary: Tensor, pairs: Tensor, grid: tuple[int, int], weight: float) -> float:
    """The most that any assignment is liked, of all that there are."""
    rows, columns = grid
    orders = torch.tensor(list(itertools.permutations(range(rows * columns))))
    total = unary[orders, torch.arange(rows * columns)].sum(1)
    at = orders.view(-1, rows, columns)
    total = total + weight * pairs[0][at[:, :, :-1], at[:, :, 1:]].flatten(1).sum(1)
    total = total + weight * pairs[1][at[:, :-1], at[:, 1:]].flatten(1).sum(1)
    best: list[int] = orders[total.argmax()].tolist()
    return best  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(4))
def test_graduated_assignment_finds_what_trying_every_order_finds(seed: int) -> None:
    draws = generator(seed)
    true = torch.randperm(9, generator=draws)  # the token in each slot
    unary = torch.randn(9, 9, generator=draws)
    unary[true, torch.arange(9)] += 1.0
    pairs = torch.randn(2, 9, 9, generator=draws)
    at = true.view(3, 3)
    pairs[0][at[:, :-1], at[:, 1:]] += 4.0
    pairs[1][at[:-1], at[1:]] += 4.0
    found = assigned(unary[None], pairs[None], (3, 3), 1.0)
    assert found[0].tolist() == everything(unary, pairs, (3, 3), 1.0)


def test_where_only_places_count_it_is_the_best_assignment() -> None:
    unary = torch.randn(1, 6, 6, generator=generator(0))
    found = assigned(unary, torch.zeros(1, 2, 6, 6), (2, 3), 1.0)
    best = max(
        itertools.permutations(range(6)), key=lambda order: sum(float(unary[0, t, s]) for s, t in enumerate(order))
    )
    assert tuple(found[0].tolist()) == best


def test_few_likely_neighbours_are_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from splitbench.attacks._jigsaw import assigning

    draws = generator(0)
    true = torch.randperm(64, generator=draws)
    unary, pairs = 0.1 * torch.randn(1, 64, 64, generator=draws), torch.randn(1, 2, 64, 64, generator=draws)
    unary[0, true, torch.arange(64)] += 1.0
    at = true.view(8, 8)
    pairs[0, 0][at[:, :-1], at[:, 1:]] += 6.0
    pairs[0, 1][at[:-1], at[1:]] += 6.0
    dense = assigned(unary, pairs, (8, 8), 1.0)
    monkeypatch.setattr(assigning, "_DENSE", 0)
    assert torch.equal(dense[0], true)
    assert torch.equal(assigned(unary, pairs, (8, 8), 1.0), dense)


def test_what_is_liked_is_the_sum_of_the_means() -> None:
    unary, pairs = torch.rand(1, 4, 4), torch.rand(1, 2, 4, 4)
    order = torch.tensor([[2, 0, 3, 1]])
    right = (pairs[0, 0, 2, 0] + pairs[0, 0, 3, 1]) / 2
    down = (pairs[0, 1, 2, 3] + pairs[0, 1, 0, 1]) / 2
    where = (unary[0, 2, 0] + unary[0, 0, 1] + unary[0, 3, 2] + unary[0, 1, 3]) / 4
    torch.testing.assert_close(liked(unary, pairs, (2, 2), order)[0, 0], where + right + down)


def test_the_ridge_solves_the_normal_equations() -> None:
    z, x = torch.randn(40, 5, generator=generator(0)), torch.randn(40, 3, generator=generator(1))
    found = Ridge.of(z, x, 0.1)
    a, b = (side.double() - side.double().mean(0) for side in (z, x))
    normal = a.T @ a
    weight = torch.linalg.inv(normal + 0.1 * normal.diagonal().mean() * torch.eye(5, dtype=torch.float64)) @ a.T @ b
    torch.testing.assert_close(found.weight, weight.float())
    torch.testing.assert_close(found(z).mean(0), x.mean(0))


@pytest.mark.parametrize("together", [1, 8])
def test_not_to_know_the_order_of_its_own_queries_costs_nothing(together: int) -> None:
    on = board(4, 4)
    draws = generator(3)
    x = on.patches(pictures(512, 1))
    embed = torch.randn(48, 64, generator=draws)
    groups = [len(part) for part in torch.split(x, together if together > 1 else len(x))]
    orders = [
        within_images(count, 16, draws) if together == 1 else across_batch(count, 16, 6, draws) for count in groups
    ]
    parts = torch.split(x, groups)
    z = torch.cat([(part @ embed).flatten(0, 1)[order] for part, order in zip(parts, orders, strict=True)])
    found, _, _ = blind(z + 1e-3 * torch.randn(z.shape, generator=draws), x, together)
    fresh = on.patches(pictures(32, 2))
    assert (found(fresh @ embed) - fresh).square().mean().sqrt() < 0.01


def test_tokens_that_say_nothing_give_the_mean_patch() -> None:
    x = torch.rand(8, 16, 48)
    assert Ridge.of(torch.zeros(8, 16, 5), x)(torch.zeros(2, 16, 5)).isfinite().all()
    torch.testing.assert_close(Ridge.of(torch.zeros(8, 16, 5), x)(torch.zeros(5)), x.mean((0, 1)))


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 6), (1, 5), (5, 1), (1, 1)])
def test_merging_uses_every_patch_once(rows: int, columns: int) -> None:
    on = board(rows, columns)
    order = merged(torch.rand(3, on.places, 48, generator=generator(0)), on)
    assert torch.equal(order.sort(1).values, torch.arange(on.places).expand(3, -1))


def test_no_piece_outgrows_the_frame_or_lies_on_itself() -> None:
    on = board(4, 4)
    patches = torch.rand(48, 48, generator=generator(0))
    grown = pieces(candidates(patches, on, 12), 48, (4, 4))
    tokens = sorted(token for piece, _ in grown for token in piece.tokens)
    assert tokens == list(range(48))
    for piece, at in grown:
        places = [at[token] for token in piece.tokens]
        assert len(set(places)) == len(places)
        assert set(places) == piece.places
        top, bottom, first, last = piece.box
        assert bottom - top < 4
        assert last - first < 4


def test_merging_solves_smooth_pictures_in_any_order() -> None:
    on = board(4, 4, patch=8)
    truth = on.patches(pictures(8, 3, side=32))
    order = torch.rand(8, 16, generator=generator(0)).argsort(1)
    mixed = placed(truth, order)
    right = (placed(mixed, merged(mixed, on)) - truth).abs().amax((1, 2)) == 0
    assert right.float().mean() > 0.8


def test_pieces_of_a_mixed_batch_find_their_rows() -> None:
    on = board(4, 4, patch=8)
    truth = on.patches(pictures(6, 3, side=32))
    order = across_batch(6, 16, 6, generator(1))
    mixed = truth.flatten(0, 1)[order]
    slots = pooled(mixed, on)
    assert torch.equal(slots.sort().values, torch.arange(96))
    shown = mixed.flatten(0, 1)[slots].view_as(truth)
    assert ((shown - truth).abs().amax(2) == 0).float().mean() > 0.7


def test_a_network_that_arranges_sees_a_set() -> None:
    on = board(4, 4)
    with seeded(0):
        network = Arranger(on, 32, 1)
    patches = torch.rand(1, 16, 48)
    order = torch.randperm(16, generator=generator(0))
    place, neighbours = network(patches)
    moved: Any = network(patches[:, order])
    torch.testing.assert_close(moved[0], place[:, order], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(moved[1], neighbours[:, :, order][..., order], atol=1e-3, rtol=1e-3)
    unary, pairs = likings(place, neighbours)
    torch.testing.assert_close(unary.exp().sum(-1), torch.ones(1, 16))
    assert pairs.max() <= 0


def test_varied_images_are_images_and_what_is_lost_is_learned() -> None:
    x = pictures(64, 0)
    other = varied(x, generator(0))
    assert other.shape == x.shape
    assert other.min() >= 0
    assert other.max() <= 1
    patches = board(4, 4).patches(x)
    lost = Loss.of(0.5 * patches + 0.1, patches)
    assert lost.spread.max() < 1e-3
    torch.testing.assert_close(lost.map(patches), 0.5 * patches + 0.1, atol=1e-2, rtol=0)
