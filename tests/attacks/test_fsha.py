"""FSHA among several clients: each is sent the gradient of its own features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from splitbench.attacks.fsha import FSHA
from splitbench.core.defense import Context, Defense
from splitbench.core.member import Batch, Plan
from splitbench.core.message import About, Message
from splitbench.core.party import MIXER, SERVER, Party, client
from splitbench.core.randomness import generator, seeded
from splitbench.core.schedule import together
from splitbench.core.split import cut, same_network
from splitbench.core.topology import Topology
from splitbench.core.wire import Wire
from splitbench.runner.parties import assemble, one_step
from splitbench.topologies.parallel import Parallel
from splitbench.topologies.vanilla import Vanilla
from tests.attacks._scene import CLASSES, images, scene

BRIEF: dict[str, Any] = {"warm": 1, "steps": 1, "critic_width": 8, "meet": 1, "decoder_steps": 1}


def network() -> nn.Sequential:
    with seeded(0):
        return nn.Sequential(nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(512, CLASSES))


def attending(attack: FSHA) -> FSHA:
    with scene(lambda: nn.Conv2d(1, 8, 5, 2, 2)) as made:
        attack.begin(replace(made.view, targets=made.view.targets[:, :0]), generator(0))
    return attack


def aims(attack: FSHA, sent: list[Tensor]) -> list[Tensor]:
    """The gradients that the critic as it is asks for, worked out apart from the protocol."""
    assert attack.hijack is not None
    critic = attack.hijack.critic
    leaves = [z.detach().clone().requires_grad_() for z in sent]
    return [torch.autograd.grad(critic(z).mean(), z)[0] for z in leaves]


@pytest.mark.parametrize(
    ("topology", "sizes"), [(Parallel(), (5, 9, 3)), (Vanilla(), (4,))], ids=["parallel", "vanilla"]
)
def test_each_client_is_sent_the_gradient_of_its_own_features(topology: Topology, sizes: tuple[int, ...]) -> None:
    attack = attending(FSHA(**BRIEF, moments=0.0, critic_lr=1e-30))
    model = same_network(cut(network(), ["0"]))
    members, plan = assemble(model, Plan(sizes), Defense(), Context(), 0, nn.functional.cross_entropy)
    samples = {party: images(size, party.index) for party, size in zip(plan.clients, sizes, strict=True)}
    batches = {party: Batch(x, y, About.plain(party.index, torch.arange(len(x)))) for party, (x, y) in samples.items()}
    sent: dict[Party, Tensor] = {}
    returned: dict[Party, Tensor] = {}

    def listen(message: Message) -> None:
        if message.kind == "smashed":
            sent[message.sender] = message.tensor
        if message.kind == "gradient":
            returned[message.receiver] = message.tensor
        attack.hear(message)

    programs = one_step(topology, members, plan, batches)
    together(programs, Wire(listeners=[listen], tamper=attack.tamper), lambda party: members[party].at_work())
    assert set(returned) == set(plan.clients)
    for party, wanted in zip(sent, aims(attack, list(sent.values())), strict=True):
        assert returned[party].shape == sent[party].shape, "batches of other clients may be larger"
        torch.testing.assert_close(returned[party], wanted)
        conv = members[party].stages[0].get_submodule("0")
        assert isinstance(conv, nn.Conv2d)
        (mine,) = torch.autograd.grad(conv(samples[party][0]), conv.weight, wanted)
        torch.testing.assert_close(conv.weight.grad, mine)


def test_of_several_messages_of_a_mixer_each_gradient_is_that_of_its_own() -> None:
    attack = attending(FSHA(**BRIEF, moments=0.0, critic_lr=1e-30))
    groups = [torch.rand(size, 8, 8, 8, generator=generator(size)) for size in (3, 5)]
    messages = [Message(MIXER, SERVER, "smashed", z, step=4) for z in groups]
    stale = Message(MIXER, SERVER, "smashed", torch.rand(2, 8, 8, 8, generator=generator(1)), step=3)
    for message in (stale, *messages):
        attack.hear(message)
    sent = [attack.tamper(m.reply("gradient", torch.zeros_like(m.tensor))).tensor for m in messages]
    for found, wanted in zip(sent, aims(attack, groups), strict=True):
        torch.testing.assert_close(found, wanted)


def test_labels_weights_and_other_cuts_pass_as_they_are() -> None:
    attack = attending(FSHA(**BRIEF))
    attack.hear(Message(client(0), SERVER, "smashed", torch.rand(2, 8, 8, 8, generator=generator(0))))
    for honest in (
        Message(SERVER, client(0), "smashed", torch.zeros(2, 3), cut=1),
        Message(SERVER, client(0), "gradient", torch.zeros(2, 3), cut=1),
        Message(SERVER, client(0), "weights", torch.zeros(2, 3)),
        Message(SERVER, client(1), "gradient", torch.zeros(2, 8, 8, 8)),
    ):
        assert attack.tamper(honest) is honest
