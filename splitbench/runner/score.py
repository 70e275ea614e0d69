"""Comparing guesses with the truth, which only the runner holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from splitbench.core import registry
from splitbench.core.attack import Attack
from splitbench.core.component import Part
from splitbench.core.data import DataSet, Samples, as_input
from splitbench.core.goal import GOALS
from splitbench.core.message import About
from splitbench.core.metric import Metric, Truth
from splitbench.core.randomness import generator
from splitbench.plan import components
from splitbench.runner.inference import infer
from splitbench.runner.prepare import Prepared
from splitbench.store.outcome import Score

Scorer = tuple[Part, Metric]


def every_metric(further: Iterable[Part] = ()) -> list[Scorer]:
    """All metrics but those on request, with their default settings, and those a recipe adds. They are cheap."""
    found = {}
    for name in registry.names("metrics"):
        part, _ = components.resolve("metrics", name, name)
        assert part is not None
        if not registry.declared("metrics", name, "on_request"):
            found[part.name] = part
    found |= {part.name: part for part in further}
    return [(part, components.build(part)) for part in found.values()]


def ranking(prepared: Prepared, goal: str) -> Metric:
    """The metric that ranks attacks with this goal on this data."""
    part, mistakes = components.resolve("metrics", GOALS[goal].ranking(prepared.data.modality), "metric")
    assert part is not None, mistakes
    metric: Metric = components.build(part)
    return metric


# -- utility -------------------------------------------------------------------------------------------------------


def utility(prepared: Prepared, metrics: Sequence[Scorer]) -> list[Score]:
    """How well the task is done on the test split, through the defense; the mean over clients' networks."""
    truth = Truth(prepared.data.test.y, prepared.data.test.extras, prepared.data.modality, prepared.data.fields)
    answers = list(_answers(prepared))
    scores = []
    for part, metric in metrics:
        if metric.goal == "labels" and metric.applies(truth) is None:
            values = [float(metric(logits, truth).double().mean()) for logits in answers]
            mean = sum(values) / len(values)
            scores.append(_score(part, metric, mean, len(truth), utility=True))
    return scores


def _answers(prepared: Prepared) -> Iterator[Tensor]:
    """What clients answer on the test split. Those that ended with the same layers share it out among them: not all
    need be defended alike."""
    x, clients = prepared.data.test.x, list(range(len(prepared.models)))
    seed = prepared.spec.seed
    if not prepared.topology.together:
        for index in clients:
            yield infer(prepared, x, index, generator(seed, "test", index)).cpu()
        return
    turn = torch.arange(len(x)) % len(clients)
    shares = [infer(prepared, x[turn == index], index, generator(seed, "test", index)).cpu() for index in clients]
    answers = torch.empty(len(x), *shares[0].shape[1:])
    for index, share in enumerate(shares):
        answers[turn == index] = share
    yield answers


def chance(prepared: Prepared) -> float:
    """The accuracy of always giving the commonest answer of the training split."""
    y, test = prepared.data.train.y, prepared.data.test.y
    if y.dim() == 1:
        return float((test == y.mode().values).double().mean())
    return float((test == (y.double().mean(0) > 0.5).long()).double().mean())


# -- leakage -------------------------------------------------------------------------------------------------------


def truth_of(prepared: Prepared, attack: Attack, about: About) -> tuple[Truth, Tensor]:
    """The truth of an attack's goal for all samples that its targets are about, and which rows of the data these are.

    A sample that a defense kept from being sent is not among them: it is no attack's merit or fault.
    """
    data, sent = prepared.data, torch.unique(about.samples[about.shares > 0])
    if attack.goal == "membership":
        _, members = prepared.candidates
        rows = torch.arange(len(members))
        truth = Truth(members, {}, data.modality, data.fields)
    elif attack.aims == "training":
        rows = sent
        truth = _truth(data, data.train.take(rows), attack.goal)
    else:
        rows = prepared.allocation.evaluation
        truth = _truth(data, prepared.evaluation, attack.goal)
    reached = torch.isin(rows, sent)
    return truth.take(reached), rows[reached]


def truth_like(data: DataSet, goal: str) -> Truth:
    """A truth of the same kind, to ask whether a metric applies: all labels, or the first samples."""
    if goal == "membership":
        return Truth(torch.arange(2), {}, data.modality, data.fields)
    return _truth(data, data.test if goal == "labels" else data.test.take(torch.arange(1)), goal)


def _truth(data: DataSet, samples: Samples, goal: str) -> Truth:
    values = as_input(samples.x) if goal == "inputs" else samples.y
    return Truth(values, samples.extras, data.modality, data.fields)


def members_of(about: About, rows: Tensor) -> Tensor:
    """(N, K): which of these rows of the data each message row is about; -1 for one that is not among them."""
    place = torch.full((1 + int(max(rows.max(), about.samples.max())),), -1)
    place[rows] = torch.arange(len(rows))
    return place[about.samples]


def leakage(
    goal: str, guess: Tensor, about: About, truth: Truth, rows: Tensor, metrics: Sequence[Scorer], readout: str
) -> list[Score]:
    """How near the guesses come to the truth, one value per sample; images in every read-out, the one that ranks first.

    Where a message mixes several samples, each is scored by the best guess of a row that it is part of (`member`), and
    each guess beside the mixture it was made of (`mixture`).
    """
    members = members_of(about, rows)
    guess, scores = guess.detach().cpu(), []
    for part, metric in metrics:
        if metric.goal != goal or metric.applies(truth) is not None:
            continue
        images = goal == "inputs" and truth.modality == "image"
        for name in (readout, *(r for r in READOUTS if r != readout)) if images else ("",):
            shown = READOUTS[name](guess) if images else guess
            if not about.mixes:
                scores.append(_plain(part, metric, shown, truth.take(members[:, 0]), name))
                continue
            scores.append(_of_members(part, metric, shown, truth, members, about.shares, name))
            if goal == "inputs" and truth.values.is_floating_point():
                mixed = Truth(_mixed(truth.values, members, about), {}, truth.modality, truth.fields)
                if metric.applies(mixed) is None:  # nobody is the person in a mixture
                    scores.append(_plain(part, metric, shown, mixed, name, "mixture"))
    return scores


def _plain(part: Part, metric: Metric, guess: Tensor, truth: Truth, readout: str, against: str = "") -> Score:
    values = metric(guess, truth).double()
    each = () if metric.pooled else tuple(values.tolist())
    score = _score(part, metric, float(torch.mean(values)), len(truth), each, readout, against)
    # A mixture is no sample of the data: its values are numbered as the messages are.
    return replace(score, samples=tuple(range(len(each)))) if against == "mixture" else score


def _of_members(
    part: Part, metric: Metric, guess: Tensor, truth: Truth, members: Tensor, shares: Tensor, readout: str
) -> Score:
    row, column = torch.nonzero((shares > 0) & (members >= 0), as_tuple=True)
    sample = members[row, column]
    values = metric(guess[row], truth.take(sample)).double()
    if metric.pooled:  # one value for all, each member beside each guess that it is part of
        return _score(part, metric, float(values), len(truth), (), readout, "member")
    high = metric.leaks_when == "high"
    best = torch.full((len(truth),), -torch.inf if high else torch.inf, dtype=torch.float64)
    best = best.scatter_reduce(0, sample, values, "amax" if high else "amin")
    return _score(part, metric, float(best.mean()), len(truth), tuple(best.tolist()), readout, "member")


def _mixed(values: Tensor, members: Tensor, about: About) -> Tensor:
    """The mixtures themselves: sums of samples by share, or place by place where the shares differ by place."""
    parts = values[members.clamp(min=0)]  # (N, K, ...)
    shares = about.shares.to(parts)
    if about.places is None or parts.dim() != 5:
        return (parts * shares.view(*shares.shape, *[1] * (parts.dim() - 2))).sum(1)
    flat = about.places.to(parts).flatten(0, 1)[:, None]
    weights = F.interpolate(flat, size=parts.shape[-2:], mode="nearest").view(*parts.shape[:2], 1, *parts.shape[-2:])
    return (parts * weights).sum(1)


def best_of(
    goal: str, tries: Sequence[Tensor], about: About, truth: Truth, rows: Tensor, metric: Metric, readout: str
) -> Tensor:
    """Of several tries of one attack, the guess that is best for each sample, by the metric that ranks.

    The truth decides, as it does for the worst case over attacks: what some try recovers has leaked. Where the metric
    is about all samples together, so is the choice.
    """
    if len(tries) == 1:
        return tries[0].contiguous()
    part = Part("metrics", "ranking", {})
    found = [leakage(goal, guess, about, truth, rows, [(part, metric)], readout) for guess in tries]
    sign = 1.0 if metric.leaks_when == "high" else -1.0
    if metric.pooled or about.mixes or not all(found):
        means = [sign * scores[0].value if scores else 0.0 for scores in found]
        return tries[max(range(len(tries)), key=lambda i: means[i])].contiguous()
    values = sign * torch.tensor([scores[0].values for scores in found])
    stacked = torch.stack([guess.cpu() for guess in tries])
    return stacked[values.argmax(0), torch.arange(stacked.shape[1])].contiguous()


def _score(
    part: Part,
    metric: Metric,
    value: float,
    n: int,
    values: tuple[float, ...] = (),
    readout: str = "",
    against: str = "",
    utility: bool = False,
) -> Score:
    return Score(
        part.name,
        components.scored_as(part),
        value,
        n,
        values,
        readout,
        against,
        metric.leaks_when,
        metric.tolerance,
        utility,
    )


def _clamp(x: Tensor) -> Tensor:
    return x.clamp(0, 1)


def _minmax(x: Tensor) -> Tensor:
    """Each image stretched to [0, 1]: for attacks that recover it up to scale. A constant image stays as it is."""
    low, high = x.flatten(1).aminmax(dim=1)
    spread = (high - low).view(-1, 1, 1, 1)
    return torch.where(spread > 0, (x - low.view(-1, 1, 1, 1)) / spread.clamp_min(1e-12), x.clamp(0, 1))


READOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {"clamp": _clamp, "minmax": _minmax}
