"""A client of the adversary's own, trained to suit the server's layers."""

from __future__ import annotations

import copy
import itertools

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from splitbench.core.progress import tell
from splitbench.core.view import Auxiliary, View


def shadow_client(view: View, steps: int, batch: int, lr: float, generator: Generator, what: str) -> nn.Module:
    """The client's layers, trained on the auxiliary labels through the server's, which stay as they are.

    As in PCAT (Gao and Zhang, USENIX Security 2023), with the last state of the server alone. Where the server
    does not hold the last layers, a linear one of the adversary's own stands for them.
    Initialised from torch's global generator.
    """
    assert view.template is not None
    assert view.auxiliary is not None
    x, y = view.auxiliary.x, view.auxiliary.y
    server = nn.Sequential(*copy.deepcopy(list(view.stages))).eval().requires_grad_(False)
    client = view.template().to(x.device)
    with torch.no_grad():
        out = server(client.eval()(x[:1]))
    head: nn.Module = nn.Identity()
    if out.shape[1:] != (view.classes,):
        head = nn.Sequential(nn.Flatten(), nn.Linear(out[0].numel(), view.classes)).to(x.device)
    client.train()
    optimizer = torch.optim.AdamW(itertools.chain(client.parameters(), head.parameters()), lr)
    order = torch.empty(0, dtype=torch.long)
    for step in range(steps):
        if len(order) < min(batch, len(x)):  # whole batches only: batch norm cannot train on a single sample
            order = torch.randperm(len(x), generator=generator)
        picked, order = order[:batch], order[batch:]
        loss = _task(head(server(client(x[picked]))), y[picked])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % 10 == 0:
            tell(what, step, steps, f"loss {loss.item():.4f}")
    tell(what, steps, steps)
    return client.eval().requires_grad_(False)


@torch.no_grad()
def smashed_by(client: nn.Module, auxiliary: Auxiliary) -> Tensor:
    return torch.cat([client(part) for part in torch.split(auxiliary.x, 256)])


def _task(logits: Tensor, y: Tensor) -> Tensor:
    if y.ndim == 2:  # attributes
        return F.binary_cross_entropy_with_logits(logits, y.float())
    return F.cross_entropy(logits, y)
