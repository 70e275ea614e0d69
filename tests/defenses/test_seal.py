"""SEAL: what its paper says of the transform, the slow algorithms it prints, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn
from torch import Tensor, nn

from splitbench.core.data import as_input
from splitbench.core.defense import Composed, Context
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.imagined import Imagined
from splitbench.core.member import Plan
from splitbench.core.message import Message
from splitbench.core.party import CLIENT, SERVER, client
from splitbench.core.randomness import generator
from splitbench.core.split import cut, same_network
from splitbench.defenses.none import None_
from splitbench.defenses.seal import SEAL
from splitbench.methods.seal.periodic import CATALOGUE, basis, judge, named, sampled, secret
from splitbench.methods.seal.zigzag import dropped, order
from splitbench.runner.execute import run
from splitbench.runner.inference import smash
from splitbench.runner.parties import assemble
from splitbench.runner.prepare import prepare
from splitbench.store.store import Store
from tests.runner._small import cells

SIZES = (14, 16, 32, 64)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def zigzag_traverse(i: int, j: int, d: int, height: int, width: int) -> tuple[int, int, int]:
    """Algorithm 3 as it is written, with a width of its own."""
    r, c = i + d, j - d
    if 0 <= r < height and 0 <= c < width:
        return r, c, d
    if d == -1:
        return (i + 1, j, 1) if j == width - 1 else (i, j + 1, 1)
    return (i, j + 1, -1) if i == height - 1 else (i + 1, j, -1)


def retained(z: Tensor, omega: float) -> set[tuple[int, int]]:
    """Algorithm 4 as it is written, for one map."""
    height, width = z.shape
    total, low, indexes = float(z.square().sum()), 0.0, set()
    i, j, d = 0, 0, -1
    while low / total < omega and len(indexes) < height * width:
        low += float(z[i, j]) ** 2
        indexes.add((i, j))
        i, j, d = zigzag_traverse(i, j, d, height, width)
    return indexes


def gram_schmidt(matrix: Tensor) -> Tensor:
    """Over rows, one after another, each twice, so that it is as orthonormal as QR."""
    rows: list[Tensor] = []
    for row in matrix:
        for _ in range(2):
            for other in rows:
                row = row - (other @ row) * other
        rows.append(row / row.norm())
    return torch.stack(rows)


def test_with_the_cosine_it_is_the_orthonormal_dct() -> None:
    for size in SIZES:
        x = normal(3, size, size)
        q = basis(named("cos"), size)
        np.testing.assert_allclose((q @ x @ q.T).numpy(), dctn(x.numpy(), axes=(1, 2), norm="ortho"), atol=1e-12)


@pytest.mark.parametrize("over", ["rows", "columns"])
@pytest.mark.parametrize("function", ["cos", "triangle", "square", "exp_cos", "cos(x+0.8)", "cos(x)+0.9cos(2x)"])
def test_the_basis_is_gram_schmidts_and_orthonormal(function: str, over: Any) -> None:
    for size in (8, 14, 32, 256):
        f = named(function)
        if judge(f, size).problems:
            continue
        q = basis(f, size, over)
        assert float((q.T @ q - torch.eye(size, dtype=q.dtype)).abs().max()) < 1e-10
        if size <= 32:
            c = sampled(f, size)
            c = c / c.norm(dim=1, keepdim=True)
            slow = gram_schmidt(c) if over == "rows" else gram_schmidt(c.T).T
            assert float((q - slow).abs().max()) < 1e-10


@pytest.mark.parametrize("size", [2, 14, 16, 32, 64, 128, 256])
def test_secret_functions_are_valid_at_their_size_and_differ_between_clients(size: int) -> None:
    functions = [secret(7, index, (size,)) for index in range(4)]
    assert len({f.name for f in functions}) == 4
    bases = [basis(f, size) for f in functions]
    eye = torch.eye(size, dtype=torch.float64)
    assert all(float((q @ q.T - eye).abs().max()) < 1e-10 for q in bases)
    if size > 2:
        assert float((bases[0] - bases[1]).abs().max()) > 0.01
    assert secret(7, 0, (size,)).name == functions[0].name
    assert secret(8, 0, (size,)).name != functions[0].name


def test_a_function_is_written_as_it_is_read() -> None:
    f = secret(3, 0, (16,))
    torch.testing.assert_close(sampled(named(f.name), 16), sampled(f, 16), rtol=0, atol=1e-9)
    torch.testing.assert_close(
        named("cos(x) - 0.5*cos(2x+0.25)").at(torch.tensor([0.3])).double(),
        (torch.tensor([0.3]).double().cos() - 0.5 * torch.tensor([0.85]).double().cos()),
    )


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("sin", "f(0) is 0"),
        ("sawtooth", "rank 15 of 16"),
        ("cos(2x)", "the function cos(2x) makes no basis of size 16: row 8 is zero at every node"),
        ("cos(x+1.5)", "too nearly dependent"),
    ],
)
def test_an_invalid_function_is_refused_with_the_reason(function: str, words: str) -> None:
    with pytest.raises(CellError) as raised:
        SEAL(function=function).perturbed(normal(1, 1, 16, 16))
    assert words in str(raised.value)


@pytest.mark.parametrize("function", ["cosine", "cos(x", "2", "", "cos(x)cos(x)", "tan(x)"])
def test_what_is_no_function_is_refused_before_anything_runs(function: str) -> None:
    with pytest.raises(SplitbenchError, match="no periodic function"):
        SEAL(function=function)


def test_a_wrong_function_is_told_with_its_place_and_what_comes_nearest() -> None:
    with pytest.raises(SplitbenchError) as raised:
        cells(defenses=[{"seal": {"function": "cosine"}}])
    [mistake] = raised.value.mistakes
    assert mistake.where == "defenses"
    assert "did you mean 'cos'?" in mistake.what


def test_the_papers_conditions_are_neither_sufficient_nor_necessary() -> None:
    sawtooth, cosine = judge(named("sawtooth"), 16), judge(named("cos"), 14)
    assert sawtooth.published
    assert cosine.zero_nodes > 0
    assert not cosine.published
    assert not cosine.problems
    assert sawtooth.problems
    assert {name for name in CATALOGUE if not judge(named(name), 16).problems} == {
        "cos", "triangle", "square", "exp_cos",
    }  # fmt: skip


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 7), (5, 1), (4, 4), (3, 6), (9, 4), (16, 16)])
def test_the_order_is_that_of_the_traversal(height: int, width: int) -> None:
    walked, (i, j, d) = [], (0, 0, -1)
    for _ in range(height * width):
        walked.append(i * width + j)
        i, j, d = zigzag_traverse(i, j, d, height, width)
    assert order(height, width).tolist() == walked


@given(
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    omega=st.floats(0.01, 0.999),
    seed=st.integers(0, 10_000),
    fading=st.floats(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_the_fast_mask_is_the_slow_loops(height: int, width: int, omega: float, seed: int, fading: float) -> None:
    decay = torch.exp(-fading * (torch.arange(height)[:, None] + torch.arange(width)))
    z = normal(2, 3, height, width, seed=seed) * decay
    beyond = dropped(z, omega)
    for image in range(2):
        for channel in range(3):
            kept = {(int(i), int(j)) for i, j in (~beyond[image, channel]).nonzero()}
            assert kept == retained(z[image, channel], omega)


def feature_maps() -> Tensor:
    """Of conv1 and bn1 of a trained run on real images, as many as a slow loop can bear."""
    [cell] = cells(model={"resnet18": {"width": 0.25}}, cut="stem", samples={"private": 64, "evaluation": 4})
    prepared = prepare(cell.run)
    z = smash(prepared, as_input(prepared.evaluation.x), generator(0))
    return z[:, :8].double()


def test_on_real_feature_maps_too_and_the_energy_is_just_enough() -> None:
    maps = feature_maps()
    for function in ("cos", "triangle"):
        q = basis(named(function), maps.shape[-1])
        z = q @ maps @ q.T
        for omega in (0.1, 0.4, 0.7, 0.9):
            beyond = dropped(z, omega)
            assert all(
                {(int(i), int(j)) for i, j in (~off).nonzero()} == retained(one, omega)
                for one, off in zip(z.flatten(0, 1), beyond.flatten(0, 1), strict=True)
            )
            in_order = z.masked_fill(beyond, 0).flatten(-2)[..., order(*z.shape[-2:])].square()
            share = in_order.sum(-1) / z.square().sum((-2, -1))
            last = (~beyond).flatten(-2).sum(-1, keepdim=True) - 1
            without = share - in_order.gather(-1, last)[..., 0] / z.square().sum((-2, -1))
            assert bool((share >= omega - 1e-12).all())
            assert bool((without < omega).all())


@pytest.mark.parametrize("shape", [(2, 3, 14, 14), (2, 3, 8, 12), (2, 10, 24), (3, 20)])
@pytest.mark.parametrize("over", ["rows", "columns"])
def test_all_of_the_energy_is_the_identity(shape: tuple[int, ...], over: Any) -> None:
    z = normal(*shape, dtype=torch.float32)
    torch.testing.assert_close(SEAL(omega=1.0, key=1, over=over).perturbed(z), z, rtol=0, atol=1e-6 * 4)
    double = z.double()
    torch.testing.assert_close(SEAL(omega=1.0, key=1, over=over).perturbed(double), double, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", ["map", "image", "batch"])
@pytest.mark.parametrize("omega", [0.4, 0.7])
def test_what_is_sent_is_a_projection_of_at_least_that_cosine(mask: Any, omega: float) -> None:
    seal, z = SEAL(omega=omega, key=5, mask=mask), normal(4, 6, 16, 16)
    sent = seal.perturbed(z)
    pool = {"map": (-2, -1), "image": (1, 2, 3), "batch": (0, 1, 2, 3)}[mask]
    energy = sent.square().sum(pool) / z.square().sum(pool)
    assert bool((energy >= omega - 1e-12).all())
    assert bool((energy < 1).all())
    # An orthogonal projection: what was taken away is orthogonal to what is left.
    torch.testing.assert_close((sent * (z - sent)).sum(pool), torch.zeros_like(energy), rtol=0, atol=1e-9)


def test_its_gradient_is_that_of_the_projection() -> None:
    seal = SEAL(omega=0.7, key=2)
    z = normal(2, 2, 6, 5).requires_grad_()
    assert torch.autograd.gradcheck(seal.perturbed, (z,))


def test_a_blank_map_stays_blank() -> None:
    assert torch.equal(SEAL(key=1).perturbed(torch.zeros(2, 3, 8, 8)), torch.zeros(2, 3, 8, 8))


def test_algorithm_5_chooses_once_and_depends_on_its_signal() -> None:
    z = normal(3, 4, 16, 16)
    gaussian, uniform = (SEAL(key=1, indices="before", signal=signal) for signal in ("gaussian", "uniform"))
    q = basis(gaussian.function_of(16, 16), 16)
    kept = [(q @ seal.perturbed(z) @ q.T).abs().gt(1e-9).sum((-2, -1)) for seal in (gaussian, uniform)]
    assert kept[0].unique().numel() == kept[1].unique().numel() == 1
    assert int(kept[0].max()) > 100 > int(kept[1].max())


def test_each_client_has_its_own_function_and_the_unprotected_have_none() -> None:
    z = normal(2, 3, 16, 16, dtype=torch.float32)
    for seal in (SEAL(), SEAL(key=1)):
        model = same_network(cut(nn.Sequential(nn.Identity(), nn.Flatten()), ["0"]))
        members, _ = assemble(model, Plan((1, 1, 1)), seal, Context(secret=4), 0, F.cross_entropy, protected=2)
        sent = [members[client(index)].defense.sent(z, None) for index in range(3)]
        assert not torch.allclose(sent[0], sent[1])
        assert torch.equal(sent[2], z)


def bound(seal: SEAL, secret: int = 0, index: int = 0) -> SEAL:
    return seal.bind(Context(client=index, secret=secret))


def test_the_function_is_that_of_the_clients_secret_or_of_the_key_and_its_number() -> None:
    names = [bound(SEAL(), secret).function_of(16, 16).name for secret in (1, 2)]
    assert len(set(names)) == 2
    assert bound(SEAL(omega=0.1), 1).function_of(16, 16).name == names[0], "whatever is kept"
    keyed = [bound(SEAL(key=7), secret, 0).function_of(16, 16).name for secret in (1, 2)]
    assert len({*keyed, secret(7, 0, (16, 16)).name}) == 1
    assert bound(SEAL(key=7), 1, 1).function_of(16, 16).name != keyed[0]
    assert bound(SEAL(function="cos"), 1).function_of(16, 16) == named("cos")


def test_two_of_a_kind_do_not_share_a_secret() -> None:
    both = Composed((SEAL(), SEAL())).bind(Context(secret=3))
    one, two = (part.function_of(16, 16).name for part in both.parts if isinstance(part, SEAL))
    assert one != two


@pytest.mark.parametrize("shape", [(14, 14), (8, 12), (1, 20)])
def test_there_is_a_basis_for_columns_and_one_for_rows(shape: tuple[int, int]) -> None:
    seal = bound(SEAL(), 5)
    down, across = seal.bases(*shape)
    f = seal.function_of(*shape)
    assert torch.equal(down, basis(f, shape[0]))
    assert torch.equal(across, basis(f, shape[1]))
    x = normal(2, 3, *shape)
    spectrum = down @ x @ across.T
    torch.testing.assert_close(seal.perturbed(x), down.T @ spectrum.masked_fill(dropped(spectrum, 0.7), 0) @ across)


def test_labels_and_tokens_pass_as_they_are() -> None:
    y = torch.arange(4)
    seal = SEAL(key=1)
    assert seal.outgoing(Message(CLIENT, SERVER, "label", y), None).tensor is y
    assert seal.outgoing(Message(CLIENT, SERVER, "smashed", y), None).tensor is y


def test_the_rungs_of_knowledge_are_nothing_the_dct_and_the_function_itself() -> None:
    seal, z = SEAL(key=3), normal(2, 3, 16, 16)
    imagined = [seal.imagined(rung, z).simulate(z, None) for rung in ("none", "family", "exact")]
    assert torch.equal(imagined[0], z)
    torch.testing.assert_close(imagined[1], SEAL(function="cos").perturbed(z))
    torch.testing.assert_close(imagined[2], seal.perturbed(z))


def given_what_was(seal: SEAL, sent: Tensor) -> Imagined:
    return seal.imagined("exact", sent).given(sent)


def test_what_was_dropped_is_read_off_what_was_sent() -> None:
    z = normal(4, 3, 14, 14, dtype=torch.float32)
    seal = SEAL(key=3, omega=0.6)
    sent = seal.perturbed(z)
    again = given_what_was(seal, sent)
    other = normal(4, 3, 14, 14, dtype=torch.float32, seed=1)

    def through(imagined: Imagined, x: Tensor) -> Tensor:
        return imagined.simulate(x, None)

    torch.testing.assert_close(through(again, z), sent)
    torch.testing.assert_close(through(again, sent), sent)
    assert not torch.allclose(through(again, other), seal.perturbed(other)), "not what would be dropped of these"
    torch.testing.assert_close(through(Composed((None_(), seal)).imagined("exact", sent).given(sent), z), sent)
    wrong = given_what_was(replace(seal, function="cos"), sent)
    torch.testing.assert_close(through(wrong, z), z, rtol=0, atol=1e-2)  # in another basis nothing was dropped
    assert not given_what_was(SEAL(key=3, omega=1.0), z).disguises
    before = replace(seal, indices="before")
    imagined = before.imagined("exact", sent)
    assert imagined.given(sent) is imagined


def of_a_run(index: int = 0, **changes: Any) -> SEAL:
    """The instance of one of two clients."""
    [cell] = cells(**{"defenses": ["seal"], "clients": 2, **changes})
    defense = prepare(cell.run).members[client(index)].defense
    assert isinstance(defense, Composed)
    [part] = defense.parts
    assert isinstance(part, SEAL)
    return part


def test_each_experiment_has_its_own_function_whatever_the_strength() -> None:
    def name(**changes: Any) -> str:
        return of_a_run(**changes).function_of(28, 28).name

    plain = name()
    assert name(defenses=[{"seal": {"omega": 0.2}}]) == plain, "strengths are compared on one function"
    assert name(training={"epochs": 3, "batch": 16}) == plain
    others = [name(seeds=[1]), name(index=1), name(cut="conv2"), name(topology="parallel"), name(clients=3)]
    assert len({plain, *others}) == 1 + len(others)
    assert of_a_run(defenses=[{"seal": {"key": 5}}]).function_of(28, 28).name == secret(5, 0, (28, 28)).name


@pytest.mark.parametrize("topology", ["vanilla", "u_shaped", "parallel", "splitfed"])
def test_runs_train_and_are_attacked(tmp_path: Path, topology: str) -> None:
    plan = cells(topology=topology, clients=2, defenses=["seal"], attacks=["mean_image", {"unsplit": {"outer": 1}}])
    rows = [finished.outcome for finished in run(plan, Store(tmp_path))]
    assert [row.status for row in rows] == ["done"] * len(rows), [row.reason for row in rows]


def test_channels_that_come_last_stay_last_both_ways_with_the_same_values() -> None:
    z = torch.randn(4, 3, 6, 5, generator=generator(0))
    seal, weights = SEAL(key=1), torch.randn(4, 3, 6, 5, generator=generator(1))
    found = {}
    for layout in (torch.contiguous_format, torch.channels_last):
        inside = z.clone(memory_format=layout).requires_grad_() * 1.0
        sent = seal.perturbed(inside)
        seen: list[Tensor] = []
        inside.register_hook(seen.append)
        (sent * weights).sum().backward()
        assert sent.is_contiguous(memory_format=layout)
        assert seen[0].is_contiguous(memory_format=layout)
        found[layout] = sent, seen[0]
    torch.testing.assert_close(*found.values())
