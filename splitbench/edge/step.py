"""One step of a case, attended by a trace: the topology's own exchange, so that nothing is counted from memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import torch
from torch import Generator, Tensor, nn

from splitbench.core.defense import Composed, Defense
from splitbench.core.errors import SplitbenchError
from splitbench.core.member import Batch, Member
from splitbench.core.message import Message
from splitbench.core.party import Party, client
from splitbench.core.randomness import seeded
from splitbench.core.schedule import together
from splitbench.core.split import SplitModel
from splitbench.core.wire import Wire
from splitbench.edge.case import Case, Scene, sketch, stage
from splitbench.edge.operation import Operation, Owner, Who
from splitbench.edge.trace import Trace
from splitbench.edge.traffic import Traffic, counted
from splitbench.runner.parties import one_step

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
    wire = TracedWire(trace=trace)
    members = {party: _traced(member, trace) for party, member in scene.members.items()}
    batches = {party: scene.given(case.batch, party) for party in taking_part(scene)}
    _enter_what_is_there(case, scene, batches, trace)
    with ExitStack() as stack:
        for part, owner in stages(scene):
            stack.enter_context(trace.inside(part, whose(owner)))
        with trace, torch.set_grad_enabled(training):
            if training:
                made = one_step(scene.topology, members, scene.plan, batches)
                together(made, wire, lambda party: trace.doing(whose(party), "layers"))
            else:
                _infer(scene.models[0], members[client(0)].defense, batches[client(0)], wire)
            for party, part in owned(scene):
                _update(case, part, party, trace)
        for _, part in owned(scene):
            part.zero_grad(set_to_none=True)
    return wire


def _traced(member: Member, trace: Trace) -> Member:
    return replace(member, defense=TracedDefense(member.defense, trace, whose(member.party)))


def stages(scene: Scene) -> list[tuple[nn.Module, Party]]:
    """Every stage once: clients may share theirs, and all share the server's."""
    pairs = [pair for model in scene.models for pair in zip(model.stages, model.owners, strict=True)]
    return list({id(part): (part, owner) for part, owner in reversed(pairs)}.values())


def whose(party: Party) -> Who:
    """Several clients in one step do the same; the first stands for each."""
    return "others" if party.role == "client" and party.index else party.role


def taking_part(scene: Scene) -> list[Party]:
    return scene.plan.clients if scene.topology.simultaneous else [client(0)]


def owned(scene: Scene) -> list[tuple[Who, nn.Module]]:
    """Each stage of the first client and of the server, once."""
    model = scene.models[0]
    return [(owner.role, part) for part, owner in zip(model.stages, model.owners, strict=True)]


def _infer(model: SplitModel, defense: Defense, batch: Batch, wire: Wire) -> None:
    given = defense.inputs(replace(batch, learning=False), None).given
    x = given[0]
    for cut, part in enumerate(model.stages):
        x = part(*given) if cut == 0 else part(x)
        if cut + 1 < len(model.stages):
            message = Message(model.owners[cut], model.owners[cut + 1], "smashed", x, cut)
            x = wire.carry(defense.outgoing(message, None) if message.sender.role == "client" else message).tensor


def _enter_what_is_there(case: Case, scene: Scene, batches: Mapping[Party, Batch], trace: Trace) -> None:
    """Weights, optimizer state and the batch of the first client and the server: there before the step begins."""
    for party, part in owned(scene):
        state = [*part.parameters(), *part.buffers()]
        trace.ledger.see(state, Owner(party), "weights")
        if case.work == "training":
            learned = sum(p.numel() * p.element_size() for p in part.parameters() if p.requires_grad)
            trace.ledger.reserve(learned * OPTIMIZERS[case.training.optimizer][0], Owner(party), "optimizer")
    first = batches[client(0)]
    trace.ledger.see([first.x, first.y], Owner("client"), "inputs")
    for learner in _learners(scene.members[client(0)].defense):
        # Networks that a defense trains for itself, with what their optimizers remember.
        trace.ledger.see(learner.holds(), Owner("client", "penalty"), "weights")


class Holding(Protocol):
    """A defense that keeps tensors of its own between steps."""

    def holds(self) -> Iterable[Tensor]: ...


def _learners(defense: Defense) -> list[Holding]:
    parts = defense.parts if isinstance(defense, Composed) else (defense,)
    return [cast(Holding, part) for part in parts if hasattr(part, "holds")]


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

    def carry(self, message: Message) -> Message:
        passed = super().carry(message)
        received = passed.tensor
        with self.trace.doing(whose(message.receiver), "layers"):
            copy = torch.empty_like(received, requires_grad=received.requires_grad)
            self.trace.ledger.mark(copy, "inputs")
        if not copy.is_meta:
            self.trace.silent = True
            copy.data.copy_(received.detach())
            self.trace.silent = False
        return passed.carrying(copy)


class TracedDefense(Defense):
    """A defense that says when it is at work."""

    def __init__(self, inner: Defense, trace: Trace, who: Who) -> None:
        self.inner = inner
        self.trace = trace
        self.who: Who = who

    @property
    def mixes(self) -> bool:  # type: ignore[override]
        return self.inner.mixes

    def inputs(self, batch: Batch, generator: Generator | None) -> Batch:
        with self.trace.doing(self.who, "defense"):
            return self.inner.inputs(batch, generator)

    def penalty(self, x: Tensor, z: Tensor) -> Tensor | None:
        with self.trace.doing(self.who, "penalty"):
            return self.inner.penalty(x, z)

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        with self.trace.doing(self.who, "defense"):
            return self.inner.outgoing(message, generator)

    def mix(self, smashed: Any, labels: Any, generator: Generator | None) -> Any:
        with self.trace.doing(self.who, "defense"):
            return self.inner.mix(smashed, labels, generator)

    def unmix(self, smashed: Any, mixed: Any, slopes: Any) -> Any:
        with self.trace.doing(self.who, "defense"):
            return self.inner.unmix(smashed, mixed, slopes)

    def incoming(self, message: Message) -> Message:
        with self.trace.doing(self.who, "defense"):
            return self.inner.incoming(message)

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        with self.trace.doing(self.who, "defense"):
            self.inner.gradients(stage, generator)
