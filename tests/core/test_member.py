from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from splitbench.core.errors import CellError
from splitbench.core.member import Batch, Client, Member, Plan, Server
from splitbench.core.message import About, Message
from splitbench.core.party import SERVER, client
from splitbench.core.randomness import seeded


def layers(inputs, outputs):
    with seeded(0):
        return nn.Sequential(nn.Linear(inputs, outputs))


def batch():
    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(1))
    return Batch(x, torch.tensor([0, 1, 1, 0]), About.plain(0, torch.arange(4)))


def test_a_client_and_a_server_by_hand_are_the_uncut_network():
    bottom, top, oracle = layers(3, 5), layers(5, 2), nn.Sequential(layers(3, 5), layers(5, 2))
    me, server = Client(client(0), [bottom]), Server(SERVER, [top])
    upload = me.smash(batch())
    arrived = upload.smashed.carrying(upload.smashed.tensor.detach().requires_grad_())
    (slope,) = server.learn([arrived], [upload.label])
    me.learn(upload, arrived.reply("gradient", slope))
    F.cross_entropy(oracle(batch().x), batch().y).backward()
    ours = [p.grad for p in (*bottom.parameters(), *top.parameters())]
    assert_close(ours, [p.grad for p in oracle.parameters()])
    assert me.step == server.step == 1


def test_what_a_client_sends_says_what_it_is_and_whether_it_waits_for_an_answer():
    me = Client(client(2), [layers(3, 5)], share=0.25, step=7, epoch=3)
    for trains in (True, False):
        me.stages[0].requires_grad_(trains)
        upload = me.smash(batch())
        assert (upload.smashed.step, upload.smashed.round, upload.smashed.share) == (7, 3, 0.25)
        assert upload.smashed.answer is trains
        assert not upload.label.answer
        assert (upload.label.kind, upload.label.sender, upload.label.receiver) == ("label", client(2), SERVER)


def test_a_frozen_member_computes_the_same_gradient_and_keeps_none():
    messages = [Message(client(0), SERVER, "smashed", torch.rand(4, 5).requires_grad_(), share=s) for s in (0.3, 0.7)]
    labels = [m.carrying(batch().y) for m in messages]
    slopes = []
    for frozen in (True, False):
        server = Server(SERVER, [layers(5, 2)], frozen=frozen)
        again = [m.carrying(m.tensor.detach().clone().requires_grad_()) for m in messages]
        slopes.append(server.learn(again, labels))
        assert all((p.grad is None) == frozen for p in server.stages[0].parameters())
    assert_close(slopes[0], slopes[1])


def test_a_loss_that_is_not_finite_ends_a_training_and_says_when():
    member = Member(SERVER, [], step=41)
    list(zip(range(3), member.epochs(Plan((1,), epochs=3)), strict=True))
    with pytest.raises(CellError, match="the loss became nan in epoch 3, step 42"):
        member.report(torch.tensor(float("nan")))
    assert replace(member, frozen=True).report(torch.tensor(float("inf"))) == float("inf")


def test_losses_are_kept_by_epoch_and_reported_to_whoever_watches():
    heard = []
    member = Member(SERVER, [], watch=heard.append)
    for epoch in member.epochs(Plan((1,), epochs=2)):
        member.report(torch.tensor(float(epoch)))
        member.report(torch.tensor(5.0))
    assert member.losses == [[0.0, 5.0], [1.0, 5.0]]
    assert heard == [0.0, 5.0, 1.0, 5.0]


def test_layers_in_half_precision_hand_on_float32():
    stage, x = layers(3, 5), torch.rand(4, 3)
    plain, half = Member(SERVER, [stage]), Member(SERVER, [stage], precision=torch.bfloat16)
    assert torch.equal(plain.forward(stage, x), stage(x))
    out = half.forward(stage, x)
    assert out.dtype == torch.float32
    assert not torch.equal(out, stage(x))
    assert_close(out, stage(x), rtol=0, atol=0.05)


def test_a_plan_knows_clients_and_their_shares():
    plan = Plan((1, 3, 4))
    assert plan.clients == [client(0), client(1), client(2)]
    assert [plan.share(party) for party in plan.clients] == [0.125, 0.375, 0.5]
