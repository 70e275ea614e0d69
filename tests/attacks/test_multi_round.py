"""Over many rounds of batch shuffling, counts say which patches are whose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from splitbench.attacks._rounds.counting import belonging, gathered, matched
from splitbench.attacks.multi_round import MultiRound
from splitbench.core.layout import Layout
from splitbench.core.randomness import generator
from splitbench.core.threat import ThreatModel
from splitbench.core.view import Auxiliary, Query, View
from splitbench.methods.shuffling.orders import across_batch, within_images
from splitbench.methods.shuffling.patches import patched

BATCH, PLACES, KEPT = 8, 16, 6


def rounds_of(patches: Tensor, count: int, rename: bool = False, noise: float = 0.0) -> Tensor:
    """Patches (B, L, P) as batch shuffling sends them again and again, (R, B, L, P)."""
    draws = generator(3, "rounds")
    orders = [across_batch(BATCH, PLACES, KEPT, draws) for _ in range(count)]
    if rename:
        orders[1:] = [order[torch.randperm(BATCH, generator=draws)] for order in orders[1:]]
    sent = torch.stack([patches.flatten(0, 1)[order] for order in orders])
    return sent + noise * torch.randn(sent.shape, generator=draws)


def labelled(seed: int = 0) -> Tensor:
    """Random patches whose first value is the number of their image."""
    patches = torch.rand(BATCH, PLACES, 12, generator=generator(seed, "patches"))
    patches[..., 0] = torch.arange(BATCH)[:, None] / 10
    return patches


def share(found: Tensor) -> float:
    """Of patches, how many are in their image's row."""
    return float(((found[..., 0] * 10).round() == torch.arange(BATCH)[:, None]).float().mean())


def test_thirty_rounds_make_every_set_complete_and_more_rounds_never_fewer() -> None:
    found = {count: share(gathered(rounds_of(labelled(), count))) for count in (1, 5, 10, 30)}
    assert found[1] < 0.6
    assert found[1] < found[5] < found[10] < found[30] == 1


def test_rows_whose_names_change_each_round_are_recognised_by_what_they_hold() -> None:
    assert share(gathered(rounds_of(labelled(), 40, rename=True), rows_known=False)) == 1
    assert share(gathered(rounds_of(labelled(), 40, rename=True))) < 0.6, "known rows would be wrong ones"


def test_what_is_gathered_are_means_over_rounds_of_the_patches_themselves() -> None:
    patches = labelled()
    found = gathered(rounds_of(patches, 60, noise=0.05))
    gaps = torch.cdist(found.flatten(0, 1), patches.flatten(0, 1)).amin(1)
    assert share(found) == 1
    assert gaps.mean() < 2 * 0.05 * 12**0.5 / 60**0.5


def test_patches_are_matched_one_to_one_even_where_the_nearest_is_another() -> None:
    draws = generator(0, "match")
    patches = torch.rand(64, 6, generator=draws)
    order = torch.randperm(64, generator=draws)
    assert torch.equal(order[matched(patches, patches[order])], torch.arange(64))
    found = matched(patches, patches[order] + 0.2 * torch.randn(64, 6, generator=draws))
    assert torch.equal(found.sort().values, torch.arange(64))
    assert matched(torch.zeros(9, 3), torch.zeros(9, 3)).unique().numel() == 9, "equal patches: any of them, each once"


def test_rows_have_room_for_so_many_patches_and_counts_are_the_largest_together() -> None:
    """By trying all twenty ways of giving three of six patches to the first row."""
    from itertools import combinations

    counts = torch.rand(6, 2, generator=generator(1, "counts"))
    best = max(
        sum(float(counts[t, 0]) for t in first) + sum(float(counts[t, 1]) for t in set(range(6)) - set(first))
        for first in combinations(range(6), 3)
    )
    rows = belonging(counts, 3)
    assert torch.equal(rows.flatten().sort().values, torch.arange(6))
    assert float(sum(counts[rows[j], j].sum() for j in range(2))) == pytest.approx(best)


def pictures(count: int, seed: int) -> Tensor:
    """Slopes whose shade says where a patch is, each of its own colours."""
    draws = generator(seed, "pictures")
    axis = torch.linspace(0, 1, 16)
    colours = torch.rand(count, 3, 3, generator=draws)
    planes = torch.stack([axis[:, None].expand(16, 16), axis.expand(16, 16), axis[:, None] * axis])
    return torch.einsum("nck,khw->nchw", colours, planes) / 2 + 0.1 * torch.rand(count, 3, 1, 1, generator=draws)


@contextmanager
def batch_shuffled(x: Tensor, public: Tensor, rounds: int) -> Iterator[View]:
    draws = generator(1, "shuffle")
    weight = torch.randn(48, 64, generator=generator(2, "weight"))

    def mixed(part: Tensor) -> Tensor:
        tokens = patched(part, 4, 4) @ weight
        alone = len(part) == 1
        order = within_images(1, PLACES, draws) if alone else across_batch(len(part), PLACES, KEPT, draws)
        return tokens.flatten(0, 1)[order]

    def client(x: Tensor) -> Tensor:
        return torch.stack([torch.cat([mixed(part) for part in x.split(BATCH)]) for _ in range(rounds)])

    sent = client(x)
    threat = ThreatModel(auxiliary=len(public), queries=len(public), rounds=rounds)
    with Query.open(client, len(public)) as query:
        yield View(
            threat=threat,
            targets=sent,
            shape=(3, 16, 16),
            classes=2,
            stages=[],
            layout=Layout("tokens", (PLACES, 64), 0, (4, 4)),
            batch=BATCH,
            auxiliary=Auxiliary(public, torch.zeros(len(public))),
            query=query,
        )


def test_many_rounds_of_batch_shuffling_are_undone_where_one_is_not() -> None:
    x, public = pictures(20, 0), pictures(240, 5)
    errors = []
    for rounds in (1, 30):
        with batch_shuffled(x, public, rounds) as view:
            recovered = MultiRound(solver="merging").run(view, generator(4, "attack")).inputs
            assert recovered is not None
            errors.append(float((recovered - x).square().mean()))
    assert errors[1] < 0.2 * errors[0]
    assert errors[1] < 0.2 * float((public.mean(0) - x).square().mean())


def test_the_papers_decoder_takes_the_tokens_of_all_rounds_side_by_side() -> None:
    x, public = pictures(4, 0), pictures(32, 5)
    with batch_shuffled(x, public, 3) as view:
        attack = MultiRound(how="decoder", steps=3, batch=8, width=16, blocks=1)
        recovered = attack.run(view, generator(4, "attack")).inputs
        assert recovered is not None
        assert recovered.shape == x.shape
    assert "queries" in (attack.lacks(ThreatModel(auxiliary=9, weights=True)) or "")
    assert MultiRound().lacks(ThreatModel(auxiliary=9, weights=True)) is None
