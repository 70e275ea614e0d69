"""Training a split network: the loop, the optimisers and the epochs that all topologies share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from splitbench.core.data import Task, as_input
from splitbench.core.defense import Defense
from splitbench.core.errors import CellError
from splitbench.core.party import client
from splitbench.core.progress import tell
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import SplitModel
from splitbench.core.topology import Batch, Loss
from splitbench.core.wire import Listener, Message, Tamper, Wire
from splitbench.plan.cells import Training
from splitbench.runner.prepare import Prepared

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Trained:
    prepared: Prepared
    wire: Wire
    losses: tuple[float, ...]  # the mean task loss of each epoch


def task_loss(task: Task) -> Loss:
    """Cross entropy, hard labels or soft; for attributes, one binary cross entropy each."""
    if task == "attributes":
        return lambda logits, y: F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
    return F.cross_entropy


def train(prepared: Prepared, listeners: Sequence[Listener] = (), tamper: Tamper | None = None) -> Trained:
    """Train in place. Listeners and a tampering server attend; honest ones change nothing."""
    spec, topology, models = prepared.spec, prepared.topology, prepared.models
    wire = Wire(prepared.defense, generator(spec.seed, "defense"), spec.record, listeners, tamper)
    order = generator(spec.seed, "order")
    loss = task_loss(prepared.data.task)
    optimizers = {id(stage): _optimizer(stage, spec.training) for stage in unique_stages(models)}
    sizes = [len(rows) for rows in prepared.clients]
    losses: list[float] = []
    step = 0
    for model in models:
        model.train()
    with seeded(spec.seed, "training"):
        for epoch in range(spec.training.epochs):
            wire.round = epoch
            steps = list(topology.steps(sizes, spec.training.batch, order))
            total = 0.0
            for at, taking_part in enumerate(steps):
                _set_rate(optimizers.values(), spec.training, epoch + at / len(steps))
                batches = [_batch(prepared, index, rows) for index, rows in taking_part]
                for optimizer in optimizers.values():
                    optimizer.zero_grad(set_to_none=True)
                value = topology.exchange(models, batches, wire, loss, step, prepared.shares)
                if not math.isfinite(value):
                    raise CellError(f"the loss became {value} in epoch {epoch + 1}, step {at + 1}")
                for optimizer in optimizers.values():
                    optimizer.step()
                total += value
                step += 1
                tell("train", step, len(steps) * spec.training.epochs, f"loss {value:.3f}")
            topology.close_round(models, wire, step, prepared.shares)
            losses.append(total / max(1, len(steps)))
    _assert_finite(models)
    return Trained(prepared, wire, tuple(losses))


def unique_stages(models: Iterable[SplitModel]) -> list[nn.Module]:
    """Every stage once: clients may share one, and all share the server's."""
    return list({id(stage): stage for model in models for stage in model.stages}.values())


def _batch(prepared: Prepared, index: int, rows: Tensor) -> Batch:
    samples = prepared.clients[index][rows]
    x = channels_last(as_input(prepared.data.train.x[samples]))
    return Batch(index, x, prepared.data.train.y[samples], samples)


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _optimizer(stage: nn.Module, training: Training) -> Optimizer:
    # A client without parameters is allowed; torch refuses an empty list, so it is given one that never moves.
    parameters = list(stage.parameters()) or [nn.Parameter(torch.zeros(0))]
    common = {"lr": training.lr, "weight_decay": training.weight_decay, "fused": True}
    if training.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=training.momentum, **common)  # type: ignore[arg-type]
    kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, **common)  # type: ignore[arg-type]


def _set_rate(optimizers: Iterable[Optimizer], training: Training, epoch: float) -> None:
    """The learning rate at a (fractional) epoch: linear warm-up, then constant or a cosine to zero."""
    if epoch < training.warmup:
        factor = (epoch + 1e-3) / training.warmup
    elif training.schedule == "cosine":
        progress = (epoch - training.warmup) / max(1e-9, training.epochs - training.warmup)
        factor = 0.5 * (1 + math.cos(math.pi * progress))
    else:
        factor = 1.0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = training.lr * factor


def _assert_finite(models: Sequence[SplitModel]) -> None:
    for stage in unique_stages(models):
        for name, value in stage.state_dict().items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise CellError(f"{name} is not finite after training")


def _batches(count: int) -> Iterator[Tensor]:
    """Rows in batches; one empty batch if there are none, so that shapes are still known."""
    for begin in range(0, max(1, count), EVALUATION_BATCH):
        yield torch.arange(begin, min(count, begin + EVALUATION_BATCH))


@torch.no_grad()
def infer(model: SplitModel, x: Tensor, wire: Wire, index: int = 0) -> Tensor:
    """The network's answer to uint8 images or tokens, everything between parties passing the wire."""
    model.eval()
    outputs = []
    for rows in _batches(len(x)):
        z = channels_last(as_input(x[rows]))
        for cut, stage in enumerate(model.stages):
            z = stage(z)
            if cut + 1 < len(model.stages):
                sender, receiver = model.owners[cut], model.owners[cut + 1]
                sender, receiver = (client(index) if p.role == "client" else p for p in (sender, receiver))
                z = wire.send(Message(0, sender, receiver, "smashed", cut, z, rows)).received
        outputs.append(z)
    return torch.cat(outputs)


@torch.no_grad()
def smash(model: SplitModel, x: Tensor, defense: Defense, noise: torch.Generator, index: int = 0) -> Tensor:
    """What the server receives for these inputs (floats in [0, 1], or tokens) at inference, defense included."""
    model.stages[0].eval()
    wire = Wire(defense, noise)
    sent = []
    for rows in _batches(len(x)):
        z = model.stages[0](channels_last(x[rows]))
        message = Message(0, client(index), model.owners[1], "smashed", 0, z, rows)
        sent.append(wire.send(message).received.detach())
    return torch.cat(sent).contiguous()
