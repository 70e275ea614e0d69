"""Comparing guesses with the truth, which only the runner holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from splitbench.core import registry
from splitbench.core.component import Part
from splitbench.core.data import as_input
from splitbench.core.metric import Metric
from splitbench.core.randomness import generator
from splitbench.core.view import Recovered
from splitbench.core.wire import Wire
from splitbench.plan import components
from splitbench.runner.prepare import Prepared
from splitbench.runner.train import infer
from splitbench.store.outcome import Score

Scorer = tuple[Part, Metric]


def every_metric(further: Iterable[Part] = ()) -> list[Scorer]:
    """All metrics there are, with their default settings, and those a recipe adds. They are cheap: use them all."""
    found = {}
    for name in registry.names("metrics"):
        part, _ = components.resolve("metrics", name, name)
        assert part is not None
        found[part.name] = part
    found |= {part.name: part for part in further}
    return [(part, components.build(part)) for part in found.values()]


def utility(prepared: Prepared, metrics: Sequence[Scorer]) -> list[Score]:
    """How well the task is done on the test split, through the defense; the mean over clients' networks."""
    test = prepared.data.test
    networks: dict[tuple[int, ...], list[int]] = {}
    for index, model in enumerate(prepared.models):
        networks.setdefault(tuple(map(id, model.stages)), []).append(index)
    answers = [_answers(prepared, clients) for clients in networks.values()]
    scores = []
    for part, metric in metrics:
        if metric.about == "labels":
            values = [float(metric(logits, test.y).double().mean()) for logits in answers]
            scores.append(Score(part.name, str(part.version), sum(values) / len(values), len(test)))
    return scores


def _answers(prepared: Prepared, clients: Sequence[int]) -> Tensor:
    """What the clients of one network answer, each to its share of the test split: not all need be defended alike."""
    x, model = prepared.data.test.x, prepared.models[clients[0]]
    turn = torch.arange(len(x)) % len(clients)
    shares = [
        infer(model, x[turn == place], Wire(prepared.defense, generator(prepared.spec.seed, "test", index)), index)
        for place, index in enumerate(clients)
    ]
    answers = torch.empty(len(x), *shares[0].shape[1:])
    for place, share in enumerate(shares):
        answers[turn == place] = share
    return answers


def leakage(
    prepared: Prepared, recovered: Mapping[str, Tensor], metrics: Sequence[Scorer], readout: str = "clamp"
) -> list[Score]:
    """How near the guesses come to the evaluation samples, one value each; images in every read-out.

    The read-out named first is the one that ranks.
    """
    truth = {"inputs": as_input(prepared.evaluation.x), "labels": prepared.evaluation.y}
    scores = []
    for part, metric in metrics:
        if metric.about not in recovered:
            continue
        guess = recovered[metric.about]
        images = metric.about == "inputs" and prepared.data.modality == "image"
        for name in (readout, *(r for r in READOUTS if r != readout)) if images else ("",):
            values = metric(READOUTS[name](guess) if images else guess, truth[metric.about]).double()
            each = () if metric.pooled else tuple(values.tolist())
            n = len(prepared.evaluation)
            scores.append(Score(part.name, str(part.version), float(torch.mean(values)), n, each, name))
    return scores


def best_of(prepared: Prepared, tries: Sequence[Recovered], readout: str) -> dict[str, Tensor]:
    """Of several tries of one attack, the guess that is best for each image, by structural similarity.

    The truth decides, as it does for the worst case over attacks: what some try recovers has leaked.
    """
    first = tries[0]
    guesses = {"inputs": first.inputs, "labels": first.labels}
    if len(tries) > 1 and first.inputs is not None and prepared.data.modality == "image":
        inputs = torch.stack([t.inputs for t in tries if t.inputs is not None])  # (R, N, C, H, W)
        part, _ = components.resolve("metrics", "ssim", "metric")
        assert part is not None
        ssim: Metric = components.build(part)
        truth = as_input(prepared.evaluation.x)
        values = torch.stack([ssim(READOUTS[readout](guess), truth) for guess in inputs])
        guesses["inputs"] = inputs[values.argmax(0), torch.arange(len(truth))]
    return {name: guess.contiguous() for name, guess in guesses.items() if guess is not None}


def _clamp(x: Tensor) -> Tensor:
    return x.clamp(0, 1)


def _minmax(x: Tensor) -> Tensor:
    """Each image stretched to [0, 1]: for attacks that recover it up to scale. A constant image stays as it is."""
    low, high = x.flatten(1).aminmax(dim=1)
    spread = (high - low).view(-1, 1, 1, 1)
    return torch.where(spread > 0, (x - low.view(-1, 1, 1, 1)) / spread.clamp_min(1e-12), x.clamp(0, 1))


READOUTS = {"clamp": _clamp, "minmax": _minmax}
