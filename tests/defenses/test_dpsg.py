"""DP-SGD on the client's layers: against a loop over samples, other accountants, and Opacus' own module."""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from splitbench.core.component import validated
from splitbench.core.defense import Composed, Context, Turn
from splitbench.core.errors import CellError, SplitbenchError
from splitbench.core.member import Batch, Plan
from splitbench.core.message import About
from splitbench.core.party import SERVER
from splitbench.core.registry import load
from splitbench.core.schedule import together
from splitbench.core.split import cut, same_network
from splitbench.core.threat import ThreatModel
from splitbench.core.wire import Wire
from splitbench.defenses._noise.per_sample import PerSample, without_batch_norm
from splitbench.defenses.dpsg import DPSG
from splitbench.plan.cells import Training
from splitbench.runner import runfolder
from splitbench.runner.adversary import view_of
from splitbench.runner.execute import run
from splitbench.runner.learner import Optimised
from splitbench.runner.parties import assemble, one_step
from splitbench.runner.prepare import prepare
from splitbench.runner.train import train
from splitbench.store.store import Store
from tests.runner._small import cells

pytest.importorskip("opacus")

CLIENTS = {
    "lenet5": ("conv2", {}),
    "resnet18": ("layer2", {"width": 0.25}),  # batch norm, in-place sums and activations
    "vit_tiny": ("block1", {"depth": 1, "width": 12}),  # parameters that belong to no layer, attention
    "pit_tiny": ("embed", {}),
    "roberta_small": ("embeddings", {"vocabulary": 30, "width": 8}),
}


def client(name: str) -> tuple[nn.Module, torch.Tensor]:
    """A client's layers in double precision, and a batch for them, laid out as in training."""
    torch.manual_seed(0)
    place, settings = CLIENTS[name]
    model = load("models", name)(**settings)
    if name == "roberta_small":
        x = torch.randint(30, (5, 12))  # padding among it
        network = model.build((12,), 2)
    else:
        x = torch.rand(5, 3, 32, 32, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
        network = model.build((3, 32, 32), 10).to(memory_format=torch.channels_last)
    stage = without_batch_norm(model.split(network.double(), (place,)).stages[0])
    for p in stage.parameters():
        p.data.add_(0.02 * torch.randn_like(p))  # norms that begin at zero would hide what is behind them
    return stage, x


def own_gradients(stage: nn.Module, x: torch.Tensor, w: torch.Tensor) -> list[list[torch.Tensor]]:
    """One sample at a time, alone."""
    parameters = list(stage.parameters())
    return [list(torch.autograd.grad((stage(x[i : i + 1]) * w[i]).sum(), parameters)) for i in range(len(x))]


def backward(stage: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The mean of a loss over the batch, as the server returns its gradient; the loss' weights."""
    z = stage(x)
    w = torch.randn(z.shape, dtype=z.dtype, generator=torch.Generator().manual_seed(1))
    z.backward(w / len(x))
    return w


@pytest.mark.parametrize("name", CLIENTS)
def test_a_huge_clip_and_no_noise_leave_the_gradient_as_it_was(name):
    stage, x = client(name)
    plain = copy.deepcopy(stage)
    backward(plain, x)
    private = PerSample(stage)
    backward(private, x)
    DPSG(noise=0, clip=1e9).gradients(private, None)
    for mine, theirs in zip(private.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CLIENTS)
def test_every_sample_is_clipped_as_a_loop_over_samples_would(name):
    stage, x = client(name)
    private = copy.deepcopy(PerSample(stage))
    w = backward(private, x)
    apart = own_gradients(private.stage, x, w)
    norms = [math.sqrt(sum(g.square().sum().item() for g in one)) for one in apart]
    clip = sorted(norms)[2]  # some are clipped, some are not
    expected = [torch.zeros_like(p) for p in private.parameters()]
    for one, norm in zip(apart, norms, strict=True):
        scaled = [g * min(1.0, clip / norm) for g in one]
        assert math.sqrt(sum(g.square().sum().item() for g in scaled)) <= clip * (1 + 1e-9)
        expected = [total + g / len(x) for total, g in zip(expected, scaled, strict=True)]
    DPSG(noise=0, clip=clip).gradients(private, None)
    for p, theirs in zip(private.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, theirs, rtol=1e-5, atol=1e-6)


def test_a_single_sample_never_moves_the_client_further_than_the_clip():
    stage, x = client("lenet5")
    for i in range(len(x)):
        private = copy.deepcopy(PerSample(stage))
        backward(private, 100 * x[i : i + 1])
        DPSG(noise=0, clip=0.3).gradients(private, None)
        assert math.sqrt(sum(p.grad.square().sum().item() for p in private.parameters())) <= 0.3


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_gradients_of_samples_are_those_of_opacus_own_module():
    from opacus.grad_sample import GradSampleModule

    stage, x = client("lenet5")
    # Its rule for convolutions is wrong for channels last.
    x, stage = x.contiguous(), stage.to(memory_format=torch.contiguous_format)
    theirs, mine = GradSampleModule(copy.deepcopy(stage)), PerSample(stage)
    for module in (theirs, mine):
        backward(module, x)
    samples, _ = mine.take()
    for gradient, p in zip(samples.values(), theirs.parameters(), strict=True):
        torch.testing.assert_close(gradient, p.grad_sample)


def test_noise_has_the_deviation_asked_for_and_is_the_generators():
    torch.manual_seed(0)
    x, drawn = torch.rand(4, 300), []
    for seed in (0, 0, 1):
        private = PerSample(nn.Linear(300, 300))
        private.load_state_dict({"weight": torch.zeros(300, 300), "bias": torch.zeros(300)})
        private(x).backward(torch.zeros(4, 300))
        before = torch.get_rng_state()
        DPSG(noise=2.0, clip=0.5).gradients(private, torch.Generator().manual_seed(seed))
        assert torch.equal(torch.get_rng_state(), before)
        drawn.append(private.stage.weight.grad.clone())
    # Noise times clip over the batch; of 90,000 draws the deviation is within 1.2% at five standard errors.
    assert abs(drawn[0].std().item() / (2.0 * 0.5 / 4) - 1) < 0.012
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_two_ends_of_a_client_share_the_clip():
    layers = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 3)).double()
    model = DPSG().prepare(same_network(cut(layers, ["0", "1"])))
    F.cross_entropy(100 * model.joined(100 * torch.rand(1, 6, dtype=torch.float64)), torch.tensor([0])).backward()
    for stage in (model.stages[0], model.stages[2]):
        DPSG(noise=0, clip=0.1).gradients(stage, None)
    moved = [p.grad for stage in (model.stages[0], model.stages[2]) for p in stage.parameters()]
    assert 0.05 < math.sqrt(sum(g.square().sum().item() for g in moved)) <= 0.1


def test_what_opacus_cannot_follow_is_refused_and_named():
    model = load("models", "roberta_small")(vocabulary=30, width=8)
    private = PerSample(model.split(model.build((12,), 2), ("embedded",)).stages[0])
    backward(private, torch.randint(30, (5, 12)))
    with pytest.raises(CellError, match=r"embedded\.positions\.weight.*cut the network before it"):
        DPSG().gradients(private, None)


def test_a_rule_that_misreads_a_layer_is_noticed():
    class Doubled(nn.Module):
        """Its second use of the weight passes no layer, so no rule sees it."""

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x) + F.linear(x, self.layer.weight)

    private = PerSample(Doubled())
    backward(private, torch.rand(3, 4))
    with pytest.raises(CellError, match=r"layer\.weight do not make up the batch's"):
        DPSG().gradients(private, None)


def test_batch_norm_becomes_group_norm_and_the_cut_still_works():
    model = load("models", "resnet18")(width=0.25)
    split = model.split(model.build((3, 32, 32), 10), ("stem",))
    shape = split.stages[0](torch.rand(2, 3, 32, 32)).shape
    private = DPSG().prepare(split)
    bottom = private.stages[0]
    assert [type(m) for m in bottom.modules() if isinstance(m, nn.GroupNorm | nn.BatchNorm2d)] == [nn.GroupNorm]
    assert any(isinstance(m, nn.BatchNorm2d) for m in private.stages[1].modules())
    assert bottom(torch.rand(2, 3, 32, 32)).shape == shape
    assert private.joined(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert list(bottom.state_dict()) == ["conv1.weight", "bn1.weight", "bn1.bias"]


def test_a_batch_norm_that_is_more_than_one_is_refused():
    class Odd(nn.BatchNorm2d):
        pass

    with pytest.raises(SplitbenchError, match="a Odd"):
        without_batch_norm(nn.Sequential(Odd(4)))


# What it spends.

TURNS = [Turn(0, 0.01, 1, 1000)]


def epsilon(turns=TURNS, **settings):
    return DPSG(**settings).spent(turns)["epsilon"]


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.1, 0.01, 1000), (0.7, 0.05, 60), (4.0, 1.0, 20)])
def test_epsilon_is_opacus_and_that_of_another_library(noise, rate, steps):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant
    from opacus.accountants import RDPAccountant

    theirs = RDPAccountant()
    theirs.history = [(noise, rate, steps)]
    mine = epsilon([Turn(0, rate, 1, steps)], noise=noise)
    assert mine == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-9)
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
    other = RdpAccountant(RDPAccountant.DEFAULT_ALPHAS).compose(event, steps)
    assert mine == pytest.approx(other.get_epsilon(1e-5), rel=1e-3)


def test_more_noise_spends_less_and_more_steps_or_samples_more():
    spent = [epsilon(noise=noise) for noise in (0.3, 1.0, 4.0, 50.0)]
    assert spent == sorted(spent, reverse=True)
    assert len(set(spent)) == len(spent)
    assert epsilon([Turn(0, 0.01, 1, 2000)]) > epsilon()
    assert epsilon([Turn(0, 0.02, 1, 1000)]) > epsilon()
    assert epsilon(delta=1e-7) > epsilon()


def test_it_spends_what_the_worst_off_protected_client_does():
    turns = [Turn(0, 0.01, 1, 10), Turn(1, 0.5, 1, 10), Turn(0, 0.02, 1, 1)]
    assert epsilon(turns) == epsilon(turns[1:2])
    assert epsilon([turns[0], turns[2]]) > epsilon([turns[0]])
    assert Composed((DPSG(),)).spent(turns) == {"epsilon": epsilon(turns), "delta": 1e-5}


def test_a_sample_that_is_twice_in_a_batch_has_half_the_noise():
    assert epsilon([Turn(0, 0.01, 2, 1000)], noise=2.0) == epsilon(noise=1.0)


def test_two_mechanisms_on_the_same_data_add_up_and_others_spend_nothing():
    both = Composed((DPSG(), load("defenses", "gaussian")(), DPSG(noise=2.0))).spent(TURNS)
    assert both == {"epsilon": pytest.approx(epsilon() + epsilon(noise=2.0)), "delta": 2e-5}


def test_without_noise_nothing_is_promised():
    assert DPSG(noise=0).spent(TURNS) == {}


# Whole runs.


def dpsg(**settings):
    return [{"dpsg": settings}] if settings else ["dpsg"]


@pytest.mark.parametrize("topology", ["standalone", "vanilla", "u_shaped", "parallel", "splitfed"])
def test_several_clients_train_in_every_topology_and_the_same_seed_gives_the_same_bytes(tmp_path: Path, topology: str):
    [cell] = cells(topology=topology, clients=2, samples={"private": 97, "auxiliary": 8, "evaluation": 4},
                   defenses=dpsg())  # fmt: skip
    store = Store(tmp_path)
    [finished] = run([cell], store)
    assert finished.outcome.status == "done", finished.outcome.reason
    stored = load_file(store.run_folder(cell.key) / "weights.safetensors")
    again = runfolder.state(train(prepare(cell.run)).prepared)
    assert stored.keys() == again.keys()
    assert all(torch.equal(stored[name], again[name]) for name in stored)
    costs = finished.outcome.costs
    assert costs["delta"] == 1e-5
    # Two steps each: 32 and 17 of 49 samples, 32 and 16 of 48. Together, the smaller client takes 17 too, one of them
    # from the beginning of another order, where it may meet itself.
    together = topology in ("parallel", "splitfed")
    sizes = [(49, 17), (48, 17 if together else 16)]
    spent = max(epsilon([Turn(0, 32 / size, 1, 1), Turn(0, rest / size, 1, 1)]) for size, rest in sizes)
    assert costs["epsilon"] == pytest.approx(spent, rel=1e-6) or (together and costs["epsilon"] > spent)


def test_a_run_is_stored_loaded_and_attacked(tmp_path: Path):
    plan = cells(model={"resnet18": {"width": 0.1}}, cut="stem", defenses=dpsg(noise=0.5),
                 attacks=["mean_image", {"inversion": {"steps": 2}}, {"unsplit": {"outer": 1, "inner": 1}}],
                 threat={"architecture": True, "queries": 32, "auxiliary": 32})  # fmt: skip
    store = Store(tmp_path)
    finished = run(plan, store)
    assert [(f.outcome.status, f.outcome.reason) for f in finished] == [("done", "")] * len(plan)
    trained = next(f for f in finished if f.cell.attack is None and "dpsg" in f.outcome.defense)
    assert trained.outcome.costs["epsilon"] > 0
    stored = load_file(store.run_folder(trained.cell.key) / "weights.safetensors")
    assert {name for name in stored if name.startswith("client0")} == {
        "client0/0/conv1.weight", "client0/0/bn1.weight", "client0/0/bn1.bias"}  # fmt: skip
    again = runfolder.load(store, trained.cell.key)
    state = runfolder.state(again.prepared)
    assert all(torch.equal(state[name], stored[name]) for name in stored)
    with view_of(again, ThreatModel(architecture=True), "inputs", None) as view:
        template = view.template()
        # The layers as trained: group norm has no running statistics.
        assert [*template.state_dict()] == [*again.prepared.models[0].stages[0].state_dict()]
        assert template(torch.rand(2, *view.shape)).shape[1:] == view.targets.shape[2:]


def test_without_clipping_or_noise_a_run_is_the_undefended_one(tmp_path: Path):
    plan = cells(defenses=["none", *dpsg(noise=0, clip=1e9)])
    finished = run(plan, Store(tmp_path))
    left, right = (load_file(Store(tmp_path).run_folder(f.cell.key) / "weights.safetensors") for f in finished)
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=1e-4, atol=1e-5)
    assert "epsilon" not in finished[1].outcome.costs


def test_only_the_protected_client_is_noisy(tmp_path: Path):
    changes = {"topology": "parallel", "clients": 2, "training": {"epochs": 2, "batch": 32}}
    [cell] = cells(defenses=dpsg(), protected=1, **changes)
    [plain] = cells(defenses=dpsg(noise=0, clip=1e9), **changes)
    store = Store(tmp_path)
    run([cell, plain], store)
    noisy, still = (load_file(store.run_folder(c.key) / "weights.safetensors") for c in (cell, plain))
    moved = [(noisy[f"client{i}/0/conv1.weight"] - still[f"client{i}/0/conv1.weight"]).norm() for i in (0, 1)]
    assert moved[0] > 3 * moved[1]


def test_texts_train():
    torch.manual_seed(0)
    model = load("models", "roberta_small")(vocabulary=30, length=12, width=8, layers=1)
    vanilla, defense = load("topologies", "vanilla")(), DPSG(noise=0.1)
    split = defense.prepare(model.split(model.build((12,), 2), ("embeddings",)))
    words = split.stages[0].state_dict()["embeddings.words.weight"]
    tokens = torch.randint(4, 30, (16, 12))
    members, plan = assemble(split, Plan((16,)), defense, Context(), 0, F.cross_entropy)
    batches = {party: Batch(tokens, tokens[:, 0] % 2, About.plain(0, torch.arange(16))) for party in plan.clients}
    for member in members.values():
        member.learner = Optimised(member.stages, Training(lr=0.01), 40)
        member.losses.append([])
    before = words.clone()
    for _ in range(40):
        together(one_step(vanilla, members, plan, batches), Wire(), lambda party: members[party].at_work())
    losses = members[SERVER].losses[0]
    assert losses[-1] < 0.5 * losses[0]
    assert not torch.equal(words[4:], before[4:])


def test_gradients_lie_in_memory_as_the_weights_do():
    """The fused optimiser pairs them by their place in memory."""
    stage, x = client("lenet5")
    private = PerSample(stage)
    backward(private, x)
    DPSG().gradients(private, None)
    assert all(p.stride() == p.grad.stride() for p in private.parameters())


def test_a_missing_opacus_is_told_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(SplitbenchError, match=r"dpsg needs opacus: pip install 'splitbench\[dp\]'"):
        DPSG()
    with pytest.raises(SplitbenchError, match=r"splitbench\[dp\]"):
        cells(defenses=dpsg())


@pytest.mark.parametrize("settings", [{"noise": -1}, {"clip": 0}, {"delta": 0}, {"delta": 1}])
def test_settings_that_mean_nothing_are_mistakes(settings):
    _, mistakes = validated(DPSG, settings, "")
    assert [m.where for m in mistakes] == list(settings)
