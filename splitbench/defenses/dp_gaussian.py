from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt, Lt
from torch import Generator, Tensor

from splitbench.core.defense import Defense, Turn
from splitbench.core.message import Message
from splitbench.defenses._noise.drawn import normal_like
from splitbench.defenses._noise.release import epsilon_of, require_accountant, sigma_for


@dataclass(frozen=True)
class DPGaussian(Defense):
    """Clip each sample's smashed data, add Gaussian noise calibrated to an epsilon, and report the epsilon spent.

    The baseline DP of Yao et al., "Privacy-Preserving Split Learning via Patch Shuffling over Transformers", 2022,
    after Dong et al., "Gaussian Differential Privacy", 2019 (https://arxiv.org/abs/1905.02383): "epsilon = 6.68 with a
    Gaussian noise standard deviation of 1.0". Neither clip, delta, adjacency nor the number of releases is given there.
    Calibrated by the analytic Gaussian mechanism of Balle and Wang, 2018, through dp-accounting: pip install
    'splitbench[dp]'.

    What epsilon means: the server cannot tell one sample of the client from any other that it might have had
    (replace-one, so that the sensitivity is 2 * clip) by the smashed data sent of it. `epsilon` is that of sending a
    sample once; what is reported is that of a whole training, in which it is sent once per epoch, at the same delta:
    it grows a little faster than the square root of the epochs. Nothing is gained by sampling, since the server sees
    which message is which. With standard deviation 1.0, one release has the paper's 6.68 at a delta of 1e-5 if clip is
    .717; if clip is 1, it has 10.0; over 60 epochs that is 108 and 185.
    Not covered are labels, what is sent for inference, and that a client that learns, or normalises over a batch,
    carries a sample into its layers and so into its messages about others: the claim is whole where the client's layers
    are frozen and see each sample alone.

    The share of the noise does not depend on clip as long as all samples are clipped: each value has, beside noise of
    sigma, a signal of about clip / sqrt(values). Clip must not be read off the private data; at 1, the noise is of the
    size that layers of a network usually pass on.
    """

    epsilon: Annotated[float, Gt(0)] = 6.68  # of sending the smashed data of a sample once
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5  # with which epsilon is told
    clip: Annotated[float, Gt(0)] = 1.0  # the largest norm of a sample's smashed data, all of its values together
    sigma: Annotated[float, Gt(0)] | None = None  # the noise's standard deviation, if it is given and not `epsilon`

    def __post_init__(self) -> None:
        require_accountant("dp_gaussian")

    @property
    def deviation(self) -> float:
        """Of the noise on every value."""
        return self.sigma if self.sigma is not None else sigma_for(self.epsilon, self.delta, self.clip)

    def outgoing(self, message: Message, generator: Generator | None) -> Message:
        if message.kind != "smashed":
            return message
        z = clipped(message.tensor, self.clip)
        return message.carrying(z + normal_like(z, generator).mul_(self.deviation))

    def spent(self, turns: Sequence[Turn]) -> dict[str, float]:
        # Clients hold different samples, so that their losses do not add up: the worst-off client's is told.
        releases = max(releases_of(turns).values(), default=0)
        return {"epsilon": epsilon_of(self.deviation, self.delta, self.clip, releases), "delta": self.delta}


def clipped(z: Tensor, clip: float) -> Tensor:
    """Each sample, whole, scaled down to a norm of at most `clip`."""
    norms = torch.linalg.vector_norm(z.flatten(1), dim=1).clamp_min(clip)  # the slope of a norm of zero stays finite
    factors: Tensor = clip / norms
    return z * factors.reshape(-1, *[1] * (z.dim() - 1))


def releases_of(turns: Sequence[Turn]) -> dict[int, int]:
    """How often each client sent the sample that it sent most often.

    The largest client sends each of its samples once per epoch; a smaller one that keeps up with it begins again, and
    some samples are sent once more than others.
    """
    sent: dict[int, float] = defaultdict(float)
    for turn in turns:
        sent[turn.client] += turn.steps * turn.rate * turn.repeats
    epochs = min(sent.values(), default=0.0)
    return {client: math.ceil(round(epochs * math.ceil(count / epochs - 1e-6), 6)) for client, count in sent.items()}
