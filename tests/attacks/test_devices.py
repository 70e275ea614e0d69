"""Attacks compute where what they attack is: nothing on the CPU meets it on the way, and the guess is there too."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from splitbench.attacks._seal.recover_basis import recover
from splitbench.core.attack import ActiveAttack, OnlineAttack
from splitbench.core.defense import Composed
from splitbench.core.imagined import Imagined
from splitbench.core.randomness import generator
from splitbench.core.view import Auxiliary, Query, Recovered, View
from splitbench.defenses.gaussian import Gaussian
from splitbench.defenses.seal import SEAL
from tests.attacks._elsewhere import ELSEWHERE, Elsewhere, StrayedError, There, moved
from tests.attacks._scene import EVERYTHING, PLAIN, Scene, convolution, scene
from tests.attacks.test_every_attack import EACH, KINDS, granted

UNASKED = {"threat": replace(EVERYTHING, queries=0)}


def stem() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8))


@contextmanager
def elsewhere(made: Scene, template: Any) -> Iterator[View]:
    """The view of a scene on the other device."""
    view, client = made.view, moved(copy.deepcopy(made.client))
    assert view.auxiliary is not None
    assert view.candidates is not None
    with Query.open(lambda x: torch.stack([client(x)] * view.threat.rounds), view.threat.queries) as query:
        yield replace(
            view,
            targets=moved(view.targets),
            stages=[moved(copy.deepcopy(stage)) for stage in view.stages],
            labels=moved(view.labels) if view.labels is not None else None,
            template=lambda: moved(template()),
            client=lambda: moved(copy.deepcopy(made.client)),
            auxiliary=Auxiliary(moved(view.auxiliary.x), moved(view.auxiliary.y)),
            candidates=Auxiliary(moved(view.candidates.x), moved(view.candidates.y)),
            query=query if view.threat.queries else None,
        )


def shortest(name: str) -> dict[str, Any]:
    """One step of each kind, with the smallest networks."""
    kind: Any = KINDS[name]
    sizes = {
        "critic_width": 4,
        "decoder_width": 4,
        "width": 4,
        "batch": 8,
        "features": 4,
        "inner": 1,
        "shadow_batch": 8,
    }
    own = {field: value for field, value in sizes.items() if field in getattr(kind, "__dataclass_fields__", {})}
    return {**dict.fromkeys(kind.phases, 1), **own, **({"warm": 1} if name == "fsha" else {})}


def mounted(mounted: Any, made: Scene, view: View, draws: Generator) -> Tensor:
    """The attack on what is elsewhere, with two messages heard there before."""
    if isinstance(mounted, OnlineAttack):
        mounted.begin(replace(view, targets=view.targets[:, :0]), draws)
        for message in made.messages[:2]:
            there = message.carrying(moved(message.tensor))
            mounted.hear(there)
            if isinstance(mounted, ActiveAttack):
                honest = there.reply("gradient", torch.zeros_like(there.tensor))
                assert mounted.tamper(honest).tensor.device == ELSEWHERE
    recovered: Recovered = mounted.run(view, draws)
    found = getattr(recovered, mounted.goal)
    assert found is not None
    return found  # type: ignore[no-any-return]


def check(
    name: str,
    modality: str = "image",
    make: Any = None,
    imagined: Imagined | None = None,
    rounds: int = 1,
    changes: dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    """One step elsewhere gives what it gives on the CPU, as far as both draw the same numbers."""
    make = make or (convolution if modality == "image" else PLAIN[modality])
    attack: Any = KINDS[name](**{**shortest(name), **settings})
    threat = replace(granted(name), rounds=rounds)
    with scene(make, threat, targets=6, modality=modality) as made:
        made = replace(made, view=replace(made.view, imagined=imagined or made.view.imagined, **(changes or {})))
        with Elsewhere(), elsewhere(made, make) as view:
            found = mounted(attack, made, view, generator(0))
        assert isinstance(found, There), "the guess is where the targets are"
        assert found.device == ELSEWHERE
        assert len(found.here) == 6
        assert found.here.isfinite().all()


@pytest.mark.parametrize(("name", "modality"), EACH)
def test_one_step_of_every_attack_is_taken_where_the_targets_are(name: str, modality: str) -> None:
    check(name, modality)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("unsplit", {"clones": "each", "starts": 3}),
        ("unsplit", {"make": stem}),
        ("unsplit", {"make": stem, "starts": 1, "patience": 1, "bounded": False, "relative": False}),
        ("inversion", {"make": stem, "changes": UNASKED, "shadow_labels": 1.0}),
        ("fora", {"noise": 0.5, "blocks": 1, "norm": "per_channel"}),
        ("fsa", {"noise": 0.5}),
        ("sdar", {"make": stem, "image_weight": 0.0, "flip": 0.1}),
        ("fsha", {"moments": 0.0}),
        ("class_mean", {}),
        ("nearest_auxiliary", {"changes": {"labels": None}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_other_settings_stay_there_too(name: str, settings: dict[str, Any]) -> None:
    check(name, **settings)


DEFENSES = {
    "gaussian": Gaussian(0.1),
    "seal": SEAL(key=1),
    "seal before": SEAL(key=1, indices="before"),
    "both": Composed((Gaussian(0.1), SEAL(key=1))),
}


@pytest.mark.parametrize("name", ["inversion", "unsplit", "fora", "shadow_secrets", "sdar", "fsa", "fsha"])
@pytest.mark.parametrize("defense", DEFENSES)
def test_a_defense_that_is_imagined_is_imagined_there(name: str, defense: str) -> None:
    imagined = DEFENSES[defense].imagined("exact", torch.zeros(0))
    settings: dict[str, Any] = {"changes": UNASKED} if name == "inversion" else {}
    if name == "shadow_secrets":
        settings = {"changes": {"threat": replace(EVERYTHING, knowledge="family")}, "shadows": 2}
    check(name, imagined=imagined, rounds=2, **settings)


def test_a_basis_is_recovered_on_the_cpu_and_used_there() -> None:
    """Decompositions of small matrices are the CPU's: maps come to it, and what is imagined goes back."""
    from splitbench.attacks.seal_basis import SealBasis, _Sealed, found

    i, j = torch.arange(16)[:, None], torch.arange(16)
    slope = 2 * torch.rand(2400, 1, 1, generator=generator(1))
    spectrum = torch.randn(2400, 16, 16, generator=generator(0)) / (1 + i + j) ** slope
    down, across = (q.float() for q in SEAL(function="cos").bases(16, 16))
    sent = SEAL(key=0).perturbed((down.T @ spectrum @ across).view(150, 16, 16, 16))
    with Elsewhere():
        there = moved(sent)
        bases = found(there)
        assert bases is not None
        assert torch.equal(bases.down, recover(sent.flatten(0, 1)).down), "the same maps tell the same basis"
        sealed = SealBasis()._sealed(Imagined(), bases, "map")
        assert isinstance(sealed, _Sealed)
        assert isinstance(sealed.simulate(there, None), There)


class OnTheCPU(nn.Module):
    """A layer with a constant that does not move."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.ones(x.shape[1:])


@pytest.mark.parametrize(
    "stray",
    [
        lambda z: z + torch.zeros(3),
        lambda z: z @ torch.zeros(3, 3),
        lambda z: torch.cat((z, torch.zeros(2, 3))),
        lambda z: z[torch.arange(2)],
        lambda z: torch.where(torch.ones(3, dtype=torch.bool), z, z),
        lambda z: nn.Linear(3, 3)(z),
        lambda z: OnTheCPU()(z),
        lambda z: torch.randn(3, device=z.device, generator=Generator()),
        lambda z: z.normal_(generator=Generator()),
    ],
)
def test_what_strays_is_found(stray: Any) -> None:
    """The device of these tests is worth something."""
    with Elsewhere(), pytest.raises(StrayedError):
        stray(moved(torch.rand(2, 3)))


def test_numbers_elsewhere_are_those_of_the_cpu() -> None:
    with Elsewhere():
        x = moved(torch.arange(6.0).view(2, 3)).requires_grad_()
        layer = moved(nn.Linear(3, 2))
        loss = (layer(x) * torch.tensor(2.0)).square().sum()
        loss.backward()
        assert loss.device == x.device == x.grad.device == layer.weight.grad.device == ELSEWHERE
        assert isinstance(torch.zeros(2, device=x.device), There)
        assert torch.tensor([3.0], device=x.device).here.tolist() == x.new_tensor([3.0]).here.tolist() == [3.0]
        assert x.sum().item() == 15
        assert x.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
        assert type(x.to("cpu")) is Tensor
