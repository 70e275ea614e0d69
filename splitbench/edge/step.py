"""One step of a case, attended by a trace: the topology's own exchange, so that nothing is counted from memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor, nn

from splitbench.core.defense import Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.party import Party, client
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import SplitModel
from splitbench.core.topology import Batch
from splitbench.core.wire import Delivery, Message, Wire
from splitbench.edge.case import Case, Scene, sketch, stage
from splitbench.edge.operation import Operation, Owner, Who
from splitbench.edge.trace import Trace
from splitbench.edge.traffic import Traffic, counted
from splitbench.runner.train import task_loss

# Bytes of optimizer state for each byte of a parameter, and bytes that an update reads and writes for each.
OPTIMIZERS = {"sgd": (1, 5), "adam": (2, 7), "adamw": (2, 7)}


@dataclass(frozen=True)
class Step:
    """What one step does, of every party."""

    case: Case
    scene: Scene
    trace: Trace
    wire: Wire
    note: str = ""  # if it could not be done without numbers

    @property
    def traffic(self) -> Traffic:
        """Of one client: several in a step do the same."""
        count = len(taking_part(self.scene)) if self.case.work == "training" else 1
        whole = counted(self.wire)
        return Traffic(whole.up // count, whole.down // count)

    def operations(self, party: Who = "client") -> list[Operation]:
        return [op for op in self.trace.operations if op.owner.party == party]


def take_step(case: Case) -> Step:
    """Without numbers if the network and the defense allow it, else with them."""
    try:
        return _step(case, sketch(case))
    except SplitbenchError:
        raise
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        if "saved tensor hooks" in reason:  # as torch.func has it, which sees through a layer without a rule
            return _step(
                case, sketch(case), "saved activations are counted as workspace: torch.func allows no hooks", False
            )
        return _step(case, stage(case, "cpu"), f"counted on real tensors, since without numbers: {reason}")


def _step(case: Case, scene: Scene, note: str = "", sorts: bool = True) -> Step:
    with seeded(0, "profile"):
        if case.defenses:
            _run(case, scene, Trace(sorts))  # what is computed once and kept, such as a basis, is no part of a step
        trace = Trace(sorts)
        wire = _run(case, scene, trace)
    return Step(case, scene, trace, wire, note)


def _run(case: Case, scene: Scene, trace: Trace) -> Wire:
    training = case.work == "training"
    for model in scene.models:
        model.train(training)
    wire = TracedWire(TracedDefense(scene.defense, trace), generator(0, "profile"), trace=trace)
    shares = [1 / len(scene.models)] * len(scene.models)
    batches = [Batch(i, *scene.batch(case.batch), torch.arange(case.batch)) for i in taking_part(scene)]
    _enter_what_is_there(case, scene, batches, trace)
    with ExitStack() as stack:
        for part, owner in stages(scene):
            stack.enter_context(trace.inside(part, whose(owner)))
        with trace, torch.set_grad_enabled(training):
            if training:
                scene.topology.exchange(scene.models, batches, wire, task_loss(case.task), 0, shares)
            else:
                _infer(scene.models[0], batches[0].x, wire)
            for party, part in owned(scene):
                _update(case, part, party, trace)
        for _, part in owned(scene):
            part.zero_grad(set_to_none=True)
    return wire


def stages(scene: Scene) -> list[tuple[nn.Module, Party]]:
    """Every stage once: clients may share theirs, and all share the server's."""
    pairs = [pair for model in scene.models for pair in zip(model.stages, model.owners, strict=True)]
    return list({id(part): (part, owner) for part, owner in reversed(pairs)}.values())


def whose(party: Party) -> Who:
    """Several clients in one step do the same; the first stands for each."""
    return "others" if party.role == "client" and party.index else party.role


def taking_part(scene: Scene) -> range:
    return range(len(scene.models)) if scene.topology.simultaneous else range(1)


def owned(scene: Scene) -> list[tuple[Who, nn.Module]]:
    """Each stage of the first client and of the server, once."""
    model = scene.models[0]
    return [(owner.role, part) for part, owner in zip(model.stages, model.owners, strict=True)]


def _infer(model: SplitModel, x: Tensor, wire: Wire) -> None:
    for cut, part in enumerate(model.stages):
        x = part(x)
        if cut + 1 < len(model.stages):
            sender, receiver = (client(0) if p.role == "client" else p for p in model.owners[cut : cut + 2])
            x = wire.send(Message(0, sender, receiver, "smashed", cut, x)).received


def _enter_what_is_there(case: Case, scene: Scene, batches: Sequence[Batch], trace: Trace) -> None:
    """Weights, optimizer state and the batch of the first client and the server: there before the step begins."""
    for party, part in owned(scene):
        state = [*part.parameters(), *part.buffers()]
        trace.ledger.see(state, Owner(party), "weights")
        if case.work == "training":
            learned = sum(p.numel() * p.element_size() for p in part.parameters() if p.requires_grad)
            trace.ledger.reserve(learned * OPTIMIZERS[case.training.optimizer][0], Owner(party), "optimizer")
    trace.ledger.see([batches[0].x, batches[0].y], Owner("client"), "inputs")


def _update(case: Case, part: nn.Module, party: Who, trace: Trace) -> None:
    """The optimizer's pass, in one fused operation as it is run, over what has a gradient."""
    learned = [p for p in part.parameters() if p.grad is not None]
    for p in learned:
        assert p.grad is not None
        trace.ledger.mark(p.grad, "gradients")
    if learned and case.work == "training":
        size = sum(p.numel() * p.element_size() for p in learned)
        moved = size * OPTIMIZERS[case.training.optimizer][1]
        written = size * (OPTIMIZERS[case.training.optimizer][0] + 1)
        name = f"fused_{case.training.optimizer}"
        trace.operations.append(Operation(Owner(party), "update", name, "update", 0, moved - written, written))


@dataclass
class TracedWire(Wire):
    """A wire between two machines: what arrives is the receiver's own memory."""

    trace: Trace = field(default_factory=Trace)

    def defense_of(self, client: Party) -> Defense:
        return TracedDefense(super().defense_of(client), self.trace, whose(client))

    def send(self, message: Message) -> Delivery:
        sent, received = super().send(message)
        with self.trace.doing(whose(message.receiver), "layers"):
            copy = torch.empty_like(received, requires_grad=received.requires_grad)
            self.trace.ledger.mark(copy, "inputs")
        if not copy.is_meta:
            self.trace.silent = True
            copy.data.copy_(received.detach())
            self.trace.silent = False
        return Delivery(sent, copy)


class TracedDefense(Defense):
    """A defense that says when it is at work."""

    def __init__(self, inner: Defense, trace: Trace, who: Who = "mixer") -> None:
        self.inner: Defense = inner.inner if isinstance(inner, TracedDefense) else inner
        self.trace = trace
        self.who = who

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return self.inner.mixes

    def protects(self, index: int) -> bool:
        return self.inner.protects(index)

    def inputs(self, x: Tensor, y: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
        with self.trace.doing(self.who, "defense"):
            return self.inner.inputs(x, y, generator)

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        with self.trace.doing(self.who, "penalty"):
            return self.inner.penalty(x, z)

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        with self.trace.doing(self.who, "defense"):
            return self.inner.outgoing(message, generator)

    def mix(self, smashed: Any, labels: Any, generator: Generator | None) -> Any:
        with self.trace.doing(self.who, "defense"):
            return self.inner.mix(smashed, labels, generator)

    def incoming(self, message: Message) -> Message:
        with self.trace.doing(self.who, "defense"):
            return self.inner.incoming(message)

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        with self.trace.doing(self.who, "defense"):
            self.inner.gradients(stage, generator)
