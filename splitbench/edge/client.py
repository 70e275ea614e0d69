"""A client by itself, on real tensors: what it does of a step, with a server that answers at once."""

from __future__ import annotations

import torch
from torch import Tensor

from splitbench.bench.train import task_loss
from splitbench.core.party import SERVER, client
from splitbench.core.randomness import generator
from splitbench.core.wire import Message, Wire
from splitbench.edge.case import Case, Scene


class Client:
    """The stages of the first client; what the server would send has the right shape and no meaning."""

    def __init__(self, case: Case, scene: Scene) -> None:
        self.training = case.work == "training"
        self.loss = task_loss(case.task)
        model = scene.models[0]
        model.train(self.training)
        self.alone = len(model.stages) == 1
        self.bottom = model.stages[0]
        self.head = model.stages[-1] if len(model.stages) > 2 else None
        self.stages = [self.bottom, *([self.head] if self.head is not None else [])]
        self.defense = scene.defense
        self.wire = Wire(scene.defense, generator(0, "profile"))
        self.x, self.y = scene.batch(case.batch)
        self.roots: list[Tensor] = []
        self.slopes: list[Tensor | None] = []
        self.features: Tensor | None = None
        if self.head is not None:
            with torch.no_grad():
                z = self.bottom(self.x)
                self.features = torch.zeros_like(model.stages[1](z))
        self.slope: Tensor | None = None

    def forward(self) -> None:
        with torch.set_grad_enabled(self.training):
            x, y = self.defense.inputs(self.x, self.y, self.wire.generator) if self.training else (self.x, self.y)
            z = self.bottom(x)
            self.roots, self.slopes = [], []
            if self.alone:
                if self.training:
                    self.roots, self.slopes = [self.loss(z, y)], [None]
                return
            penalty = self.defense.penalty(x, z) if self.training else None
            sent = self.wire.send(Message(0, client(0), SERVER, "smashed", 0, z)).sent
            if self.head is not None and self.features is not None:
                out = self.head(self.features.detach().requires_grad_(self.training))
                if self.training:
                    self.roots.append(self.loss(out, y))
                    self.slopes.append(None)
            if sent.requires_grad:
                self.roots.append(sent)
                self.slopes.append(torch.full_like(sent, 1e-3, requires_grad=False))
            if penalty is not None and penalty.requires_grad:
                self.roots.append(penalty)
                self.slopes.append(None)

    def backward(self) -> None:
        if self.roots:
            torch.autograd.backward(self.roots, self.slopes)
        for part in self.stages:
            self.defense.gradients(part, self.wire.generator)
