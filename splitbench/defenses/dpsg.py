from __future__ import annotations

import importlib.util
import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Lt
from torch import Generator, Tensor, nn

from splitbench.core.defense import Defense, Turn
from splitbench.core.errors import SplitbenchError
from splitbench.core.split import SplitModel
from splitbench.defenses._noise.drawn import normal_like
from splitbench.defenses._noise.per_sample import PerSample, without_batch_norm


@dataclass(frozen=True)
class DPSG(Defense):
    """Clip each sample's gradient on the client's layers, add noise, and report the epsilon spent.

    Abadi et al., "Deep Learning with Differential Privacy", 2016, algorithm 1. https://arxiv.org/abs/1607.00133
    Table 1 of SEAL has a column DPSG without definition or settings; that it is DP-SGD on the client is our reading.
    Clip and delta are FSA's. Needs Opacus: pip install 'splitbench[dp]'.
    Batch norm in the client's layers becomes group norm. Where a client has layers at both ends, each end is clipped
    to clip / sqrt(2), so that a sample moves both by no more than clip. Gradients of samples are kept whole: 5 GB for
    32 texts at the word embeddings of roberta_base.

    What epsilon means: the accountant assumes Poisson sampling, as everybody's does, while batches here are shuffled;
    the rate is a batch's share of the client's samples, and the worst-off client's epsilon is told. It is about the
    noise on the client's weights alone. It says nothing of the smashed data, which leave as they are; and it takes a
    sample's gradient to depend on no other sample, which a server that learns without noise, its batch norm, and a
    penalty such as `nopeek` do not grant. It is the price of the mechanism, not a promise of the system.
    """

    noise: Annotated[float, Ge(0)] = 1.0  # noise multiplier: the noise's standard deviation is this times clip
    clip: Annotated[float, Gt(0)] = 1.0  # the largest norm of a sample's gradient
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5  # with which epsilon is told

    def __post_init__(self) -> None:
        # Looked for, not imported: a recipe is checked in an instant, and before anything runs.
        if importlib.util.find_spec("opacus") is None:
            raise SplitbenchError("dpsg needs opacus: pip install 'splitbench[dp]'")

    def prepare(self, model: SplitModel) -> SplitModel:
        mine = [owner.role == "client" for owner in model.owners]
        share = 1 / math.sqrt(sum(mine))
        stages = (
            PerSample(without_batch_norm(stage), share) if here else stage
            for stage, here in zip(model.stages, mine, strict=True)
        )
        return replace(model, stages=tuple(stages))

    def gradients(self, stage: nn.Module, generator: Generator | None) -> None:
        assert isinstance(stage, PerSample), "`prepare` wraps every stage of a client"
        samples, norms = stage.take()
        # Opacus has the same small number: a sample may have no gradient at all.
        factors = (self.clip * stage.share / (norms + 1e-6)).clamp(max=1)
        for p, g in samples.items():
            total = torch.einsum("n,n...->...", factors, g)
            assert p.grad is not None
            # Into the gradient that is there: it is laid out in memory as the optimiser expects.
            p.grad.copy_((total + self._noise(total, generator)) / len(g))

    def _noise(self, like: Tensor, generator: Generator | None) -> Tensor:
        return normal_like(like, generator).mul_(self.noise * self.clip)

    def spent(self, turns: Sequence[Turn]) -> dict[str, float]:
        if self.noise == 0:
            return {}  # nothing can be promised
        clients: dict[int, list[Turn]] = defaultdict(list)
        for turn in turns:
            clients[turn.client].append(turn)
        # Clients hold different samples, so that their losses do not add up.
        return {"epsilon": max(map(self._epsilon, clients.values()), default=0.0), "delta": self.delta}

    def _epsilon(self, turns: Sequence[Turn]) -> float:
        from opacus.accountants import RDPAccountant

        accountant = RDPAccountant()
        # A sample that is twice in a batch moves the sum twice as far: that is half the noise.
        accountant.history = [(self.noise / turn.repeats, turn.rate, turn.steps) for turn in turns]
        orders = [*RDPAccountant.DEFAULT_ALPHAS, 64, 96, 128, 192, 256, 512, 1024]
        with warnings.catch_warnings():
            # It warns where a finer grid of orders could tell a smaller epsilon: the one it tells holds all the same.
            warnings.filterwarnings("ignore", "Optimal order is the")
            return float(accountant.get_epsilon(self.delta, alphas=orders))
