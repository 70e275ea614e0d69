"""Training a split network: every party's program, run side by side in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from splitbench.core.errors import CellError
from splitbench.core.member import Member
from splitbench.core.party import SERVER, Party
from splitbench.core.progress import tell
from splitbench.core.schedule import together
from splitbench.core.wire import Listener, Tamper, Wire
from splitbench.runner.learner import Optimised
from splitbench.runner.parties import programs
from splitbench.runner.prepare import Prepared


@dataclass(frozen=True)
class Trained:
    prepared: Prepared
    wire: Wire
    losses: tuple[float, ...]  # the mean task loss of each epoch


def train(
    prepared: Prepared, listeners: Sequence[Listener] = (), tamper: Tamper | None = None, tamperer: Party = SERVER
) -> Trained:
    """Train in place. Listeners and a tampering party attend; honest ones change nothing."""
    spec, members = prepared.spec, prepared.members
    wire = Wire(spec.record, listeners, tamper, tamperer)
    begin_learning(prepared)
    together(programs(prepared.topology, members, prepared.plan), wire, lambda party: members[party].at_work())
    losses = end_learning(prepared)
    return Trained(prepared, wire, losses)


def begin_learning(prepared: Prepared) -> None:
    """Give every party its optimizer, and somebody to report to."""
    topology, plan, training = prepared.topology, prepared.plan, prepared.spec.training
    total, done = topology.steps(plan) * plan.epochs, 0

    def watch(loss: float) -> None:
        nonlocal done
        done += 1
        tell("train", done, total, f"loss {loss:.3f}")

    for party, member in prepared.members.items():
        for stage in member.stages:
            # Frozen layers stay as they are in every respect, running statistics and dropout included.
            stage.train(not (training.frozen and party.role == "client"))
        member.losses.clear()
        member.watch = watch
        if member.stages:
            head = party.role == prepared.owners[-1].role
            member.learner = Optimised(member.stages, training, topology.steps(plan, party) * plan.epochs, head)


def end_learning(prepared: Prepared) -> tuple[float, ...]:
    """The mean loss of each epoch, over all steps in which a party computed one."""
    members = prepared.members.values()
    for member in members:
        member.learner = None
        _assert_finite(member)
    epochs = range(prepared.plan.epochs)
    values = [[loss for member in members if member.losses for loss in member.losses[epoch]] for epoch in epochs]
    return tuple(sum(losses) / max(1, len(losses)) for losses in values)


def _assert_finite(member: Member) -> None:
    for stage in member.stages:
        for name, value in stage.state_dict().items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise CellError(f"{name} of the {member.party.role} is not finite after training")
