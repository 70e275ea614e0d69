"""Nothing that can be reached from a view leads to a secret below `exact`, to private data or to a client's weights."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from splitbench.core.data import as_input
from splitbench.core.party import Party, client
from splitbench.core.threat import KNOWLEDGE, ThreatModel
from splitbench.core.wire import Wire
from splitbench.defenses.seal import SEAL
from splitbench.runner.adversary import view_of
from splitbench.runner.prepare import Prepared, prepare
from splitbench.runner.train import Trained, train

from ._reach import numbers, reachable, tensors
from ._small import cells, observed, seen

DEFENSES = Path(__file__).parent / "_own_defenses.py"
ALL = ThreatModel(labels=True, architecture=True, auxiliary=16, queries=16, transcript=True, tampers=True, rounds=2)
KEY, SEED = 731_999_331_777, 918_273_645
CONTENTS = {"private": 48, "auxiliary": 32, "evaluation": 4}


@dataclass
class Slotted:
    __slots__ = ("inside",)
    inside: Any


def test_the_walk_finds_what_is_hidden() -> None:
    secret = torch.rand(3)

    def closure() -> Tensor:
        return secret

    def generator() -> Iterator[int]:
        inner = secret
        yield 1
        yield len(inner)

    def default(x: Tensor = secret) -> Tensor:
        return x

    begun = generator()
    next(begun)
    module = nn.Linear(2, 2)
    module.register_buffer("hidden", secret)
    hooked = nn.Identity()
    hooked.register_forward_hook(lambda *_, kept=secret: None)
    with_gradient = torch.rand(2, requires_grad=True)
    with_gradient.grad = torch.rand(2)
    places: dict[str, Any] = {
        "a list": [[secret]],
        "a key": {(secret,): 1},
        "a closure": closure,
        "a default": default,
        "a frame": begun,
        "a method": module.forward,
        "a partial": functools.partial(print, secret),
        "a slot": Slotted(secret),
        "a hook": hooked,
        "an iterator": iter([secret]),
        "a chain": itertools.chain([secret]),
        "a map": map(str, [secret]),
        "an attribute": type("Holder", (), {})(),
    }
    places["an attribute"].one = Slotted({"two": secret})
    for name, place in places.items():
        wanted = module.weight if name == "a method" else secret
        assert any(t is wanted for t in tensors(place)), name
    assert any(t is with_gradient.grad for t in tensors([with_gradient]))
    whole = torch.arange(10)
    assert any(torch.equal(t, whole) for t in tensors(whole[:2]))
    assert KEY in numbers({"a": [lambda: KEY, (KEY,)]}) - numbers({"a": [lambda: 5]})
    assert SEED in numbers(torch.Generator().manual_seed(SEED))


def trained(**changes: Any) -> Trained:
    settings: dict[str, Any] = {"record": True, "seeds": [SEED], "samples": CONTENTS, "cut": "relu1", **changes}
    return train(prepare(cells(**settings)[-1].run))


@pytest.fixture(scope="module", params=["derived", "explicit", "among others"])
def sealed(request: pytest.FixtureRequest) -> Trained:
    plain: dict[str, Any] = {"seal": {"omega": 0.7}}
    with_key = {"seal": {"omega": 0.7, "key": KEY}}
    defenses = {"derived": [plain], "explicit": [with_key], "among others": ["gaussian", with_key, "nopeek"]}
    return trained(defenses=[defenses[request.param]], topology="parallel", clients=2)


def seals(prepared: Prepared) -> list[SEAL]:
    """Every client's own."""
    return [
        part
        for party in prepared.plan.clients
        for part in prepared.members[party].defense.parts  # type: ignore[attr-defined]
        if isinstance(part, SEAL)
    ]


def secrets_of(prepared: Prepared) -> set[int]:
    return {KEY, SEED, *(seal.context.secret for seal in seals(prepared))}


def bases(start: Any, height: int, width: int) -> list[Tensor]:
    """Square matrices that can be reached, and those that objects which can be reached make when asked."""
    found = []
    for thing in reachable(start):
        if isinstance(thing, Tensor):
            found.append(thing.detach().double())
        elif callable(getattr(thing, "bases", None)):
            found += thing.bases(height, width)
    return [matrix for matrix in found if matrix.dim() == 2 and matrix.shape in ((height,) * 2, (width,) * 2)]


def shares_a_row(matrix: Tensor, basis: Tensor) -> bool:
    """Whether many of the basis's vectors are there, as rows or columns, up to sign. A constant is in all."""
    units = [nn.functional.normalize(m, dim=1) for m in (matrix, matrix.T)]
    true = [nn.functional.normalize(m.double(), dim=1) for m in (basis, basis.T)]
    return any(int(((u @ t.T).abs() > 1 - 1e-6).any(1).sum()) > len(basis) // 4 for u in units for t in true)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_only_an_exact_view_leads_to_the_key_the_seed_or_the_basis(sealed: Trained, knowledge: str, live: bool) -> None:
    prepared = sealed.prepared
    assert prepared.layout is not None
    _, height, width = prepared.layout.shape
    true = seals(prepared)[0].bases(height, width)
    threat = replace(ALL, knowledge=knowledge)  # type: ignore[arg-type]
    with seen(sealed, threat, live=live) as view:
        assert view.template is not None
        # What an attack can make of its view by calling what is there counts too.
        imagined = view.imagined
        made = [view, view.template(), imagined.shadow(torch.Generator().manual_seed(1))]
        made += [imagined.given(round_) for round_ in view.targets if len(round_)]
        found = numbers(made)
        held = bases(made, height, width)
        known = [matrix for matrix in held if any(shares_a_row(matrix, basis) for basis in true)]
    secret = seals(prepared)[0]
    if knowledge == "exact":
        assert (KEY if secret.key is not None else secret.context.secret) in found
        assert known
    else:
        assert not found & secrets_of(prepared)
        assert not known
    assert SEED not in found


def test_family_and_exact_imagine_another_function(sealed: Trained) -> None:
    """The walk looks for the right thing: at `exact` what is imagined sends what the client sent."""
    prepared = sealed.prepared
    assert prepared.layout is not None
    z = torch.randn(2, *prepared.layout.shape)
    true = seals(prepared)[0].perturbed(z)
    own = SEAL.perturbed
    for knowledge, alike in (("family", False), ("exact", True)):
        with seen(sealed, replace(ALL, knowledge=knowledge)) as view:  # type: ignore[arg-type]
            [seal] = {id(x): x for x in reachable(view.imagined) if isinstance(x, SEAL)}.values()
            assert torch.allclose(own(seal, z), true, atol=1e-5) == alike


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_a_template_is_built_with_secrets_of_the_adversarys_own(knowledge: str) -> None:
    run = cells(defenses=[f"{DEFENSES}:Wrapped"])[-1].run
    whole = Trained(prepare(run), Wire(), ())
    true = whole.prepared.members[client(0)].stages[0].secret
    with seen(whole, replace(ALL, transcript=False, knowledge=knowledge)) as view:  # type: ignore[arg-type]
        assert view.template is not None
        built = view.template()
        assert torch.equal(built.secret, true) == (knowledge == "exact")  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["vanilla", "u_shaped", "parallel", "splitfed"])
def any_topology(request: pytest.FixtureRequest) -> Trained:
    return trained(topology=request.param, clients=2, defenses=[["gaussian", "nopeek"]])


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("goal", ["inputs", "labels"])
def test_no_tensor_is_a_private_input_an_evaluation_input_or_a_clients_weight(
    any_topology: Trained, live: bool, goal: str
) -> None:
    prepared = any_topology.prepared
    with seen(any_topology, ALL, goal, live=live) as view:
        held = [t.detach() for t in tensors(view)]
    assert len(held) > 10
    averaged = prepared.spec.topology.name == "splitfed"  # whose server is sent weights and averages them
    assert not _private(held, prepared)
    assert bool(_weights(held, prepared, [0, 1])) == averaged


def _private(held: list[Tensor], prepared: Prepared) -> list[Tensor]:
    data = prepared.data
    private = as_input(torch.cat([data.train.x[prepared.allocation.private], prepared.evaluation.x]))
    secrets = {bytes(row.contiguous().numpy()) for row in private}
    images = [t for t in held if t.dim() == 4 and t.shape[1:] == private.shape[1:]]
    return [t for t in images if any(bytes(row.float().contiguous().numpy()) in secrets for row in t)]


def _weights(held: list[Tensor], prepared: Prepared, whose: list[int]) -> list[Tensor]:
    """Of what is held, what is or equals a weight of these clients."""
    weights = [p for i in whose for stage in prepared.members[client(i)].stages for p in stage.parameters()]
    memory = {p.untyped_storage().data_ptr() for p in weights if p.numel()}
    return [
        t
        for t in held
        if (t.numel() and t.untyped_storage().data_ptr() in memory)
        or any(t.shape == w.shape and torch.equal(t, w) for w in weights)
    ]


def test_a_client_holds_its_own_layers_and_not_those_of_another() -> None:
    whole = trained(topology="parallel", clients=2)
    threat = replace(ALL, party="client1", labels=False)
    with view_of(whole, threat, "labels", observed(whole, threat)) as view:
        held = [t.detach() for t in tensors(view)]
    assert _weights(held, whole.prepared, [1])
    assert not _weights(held, whole.prepared, [0])
    server = whole.prepared.members[Party("server")].stages[0]
    assert not any(t.shape == w.shape and torch.equal(t, w) for w in server.parameters() for t in held)


def test_auxiliary_samples_beyond_the_grant_are_not_behind_those_granted() -> None:
    whole = trained()
    with seen(whole, replace(ALL, auxiliary=8)) as view:
        assert view.auxiliary is not None
        assert view.auxiliary.x.untyped_storage().nbytes() == 4 * 8 * 28 * 28
        assert view.auxiliary.y.untyped_storage().nbytes() == 8 * 8
