"""A client by itself, on real tensors: what it does of a step, with a server that answers at once."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from splitbench.core.message import Message
from splitbench.core.party import SERVER, client
from splitbench.core.wire import Wire
from splitbench.edge.case import Case, Scene
from splitbench.edge.trace import Numberless
from splitbench.runner.prepare import task_loss


class Client:
    """The stages of the first client; what the server would send has the right shape and no meaning."""

    def __init__(self, case: Case, scene: Scene) -> None:
        """Of a scene without numbers: a client has only its own layers, and the server's are never made."""
        self.training = case.work == "training"
        self.loss = task_loss(case.task)
        model = scene.models[0]
        model.train(self.training)
        self.alone = len(model.stages) == 1
        self.features: Tensor | None = None
        if len(model.stages) > 2:
            with torch.no_grad(), Numberless():
                features = model.stages[1](model.stages[0](scene.batch(case.batch)[0]))
            self.features = torch.zeros_like(features, device="cpu")
        self.stages = [_filled(part) for part in model.owned_by("client")]
        self.bottom, self.head = self.stages[0], self.stages[-1] if len(self.stages) > 1 else None
        me = scene.members[client(0)]
        self.defense, self.draws, self.wire = me.defense, me.noise, Wire()
        self.batch = replace(replace(scene, device="cpu").given(case.batch, client(0)), learning=self.training)
        self.sent: Tensor | None = None
        self.roots: list[Tensor] = []
        self.slopes: list[Tensor | None] = []

    def forward(self) -> None:
        with torch.set_grad_enabled(self.training):
            batch = self.defense.inputs(self.batch, self.draws)
            x, y = batch.x, batch.y
            z = self.bottom(*batch.given)
            self.roots, self.slopes = [], []
            if self.alone:
                if self.training:
                    self.roots, self.slopes = [self.loss(z, y)], [None]
                return
            penalty = self.defense.penalty(x, z) if self.training else None
            message = self.defense.outgoing(Message(client(0), SERVER, "smashed", z, about=batch.about), self.draws)
            self.wire.carry(message)
            sent = message.tensor
            if self.head is not None and self.features is not None:
                out = self.head(self.features.detach().requires_grad_(self.training))
                if self.training:
                    self.roots.append(self.loss(out, y))
                    self.slopes.append(None)
            self.sent = sent
            if penalty is not None and penalty.requires_grad:
                self.roots.append(penalty)
                self.slopes.append(None)

    def receive(self) -> None:
        """What the server would send back; the client has nothing to do for it."""
        if self.sent is not None and self.sent.requires_grad:
            self.roots.append(self.sent)
            self.slopes.append(torch.full_like(self.sent, 1e-3, requires_grad=False))

    def backward(self) -> None:
        if self.roots:
            torch.autograd.backward(self.roots, self.slopes)
        for part in self.stages:
            self.defense.gradients(part, self.draws)
        self.roots, self.slopes, self.sent = [], [], None


def _filled(part: nn.Module) -> nn.Module:
    """Layers with numbers of the usual size, which are all that time depends on."""
    layout = [p.stride() for p in part.parameters()]
    part.to_empty(device="cpu")
    for p, stride in zip(part.parameters(), layout, strict=True):
        assert p.stride() == stride
        nn.init.normal_(p, std=0.05)
    for buffer in part.buffers():
        buffer.fill_(1)
    return part
