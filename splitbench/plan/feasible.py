"""Whether a run can be made: its data is here, its network can be built and cut. Nothing is trained."""

from __future__ import annotations

import functools
import itertools
import json
from dataclasses import replace
from pathlib import Path

import torch

from splitbench.core.component import Part
from splitbench.core.data import DataSet, as_input
from splitbench.core.defense import Composed, Context, Defense
from splitbench.core.errors import Mistake, SplitbenchError
from splitbench.core.model import Model, build_for
from splitbench.core.randomness import generator, seeded
from splitbench.core.split import output_shape
from splitbench.core.topology import Topology
from splitbench.data._allocation.allocate import allocate
from splitbench.data._allocation.partition import partition
from splitbench.data._folders import folders
from splitbench.plan import components
from splitbench.plan.cells import RunSpec


def load_data(part: Part) -> DataSet:
    """A data set, read once per process from the folders that are set."""
    return _load(part.name, json.dumps(part.settings, sort_keys=True), folders())


@functools.lru_cache(maxsize=4)
def _load(name: str, settings: str, places: tuple[Path, ...]) -> DataSet:
    data: DataSet = components.build(Part("data", name, json.loads(settings))).load(places)
    return data


def check_run(spec: RunSpec) -> None:
    """Everything that can be wrong with a run and is known before training. Raises `SplitbenchError`."""
    data = load_data(spec.data)
    architecture: Model = components.build(spec.model)
    if architecture.modality != data.modality:
        raise SplitbenchError(
            [Mistake("model", f"{spec.model.name} takes {architecture.modality}, {spec.data.name} is {data.modality}")]
        )
    if spec.protected is not None and spec.protected > spec.clients:
        raise SplitbenchError([Mistake("protected", f"{spec.protected} of {spec.clients} clients cannot be protected")])
    topology: Topology = components.build(spec.topology)
    try:
        defenses: list[Defense] = [components.build(part) for part in spec.defenses]
    except SplitbenchError as error:
        raise SplitbenchError([Mistake("defenses", mistake.what) for mistake in error.mistakes]) from error
    if any(defense.mixes for defense in defenses) and not topology.simultaneous:
        raise SplitbenchError(
            [
                Mistake(
                    "topology", f"{spec.topology.name} has one client at a time, so nothing can be mixed; use parallel"
                )
            ]
        )
    if any(defense.joint for defense in defenses) and spec.training.batch < 2:
        names = " and ".join(part.name for part in spec.defenses)
        raise SplitbenchError(
            [Mistake("training.batch", f"{names} mixes the images of a batch, and a batch here is a single image")]
        )
    _check_samples(spec, data)
    parts = (spec.data, spec.model, spec.topology, *spec.defenses)
    _check_network(json.dumps([p.document() for p in parts], sort_keys=True), spec.cut, spec.clients)


def _check_samples(spec: RunSpec, data: DataSet) -> None:
    """Whether there are as many samples as each side is to get."""
    counts = spec.samples
    public = load_data(spec.auxiliary) if spec.auxiliary is not None else None
    draws = generator(spec.seed, "allocation")
    try:
        allocated = allocate(
            data, counts.private, counts.auxiliary, counts.evaluation, draws, public, counts.candidates
        )
    except SplitbenchError as error:
        raise SplitbenchError([replace(m, where=m.where or "samples") for m in error.mistakes]) from error
    allocated.check()
    if counts.candidates:
        labels = data.train.y[allocated.private]
        shares = partition(spec.partition, labels, spec.clients, spec.alpha, generator(spec.seed, "partition"))
        if counts.candidates > len(shares[0]):
            what = f"{counts.candidates} members are asked for, but client0 holds {len(shares[0])} samples"
            raise SplitbenchError([Mistake("samples.candidates", what)])


@functools.lru_cache(maxsize=64)
def _check_network(documents: str, cut: str, clients: int) -> None:
    """Whether this network can be built for this data, cut there and defended; the same for every seed."""
    kinds = itertools.chain(("data", "models", "topologies"), itertools.repeat("defenses"))
    data_part, model_part, topology_part, *defenses = (
        Part(kind, document["name"], document["settings"], document["version"])
        for kind, document in zip(kinds, json.loads(documents), strict=False)
    )
    data = load_data(data_part)
    architecture: Model = components.build(model_part)
    topology: Topology = components.build(topology_part)
    with seeded(0):
        try:
            network = build_for(architecture, data)
            split = architecture.split(network, topology.places(cut, list(architecture.cuts)))
        except SplitbenchError as error:
            raise SplitbenchError([Mistake("cut", m.what) for m in error.mistakes]) from error
        split.eval()
        try:
            with torch.no_grad():
                split.joined(as_input(data.train.x[:1]))
        except (RuntimeError, ValueError, AssertionError) as error:
            raise SplitbenchError(
                [Mistake("model", f"{model_part.name} cannot take inputs of shape {data.shape}: {error}")]
            ) from error
        if defenses and len(split.stages) > 1:
            smashed = output_shape(split.stages[0], data.shape, as_input(data.train.x[:1]).dtype)
            layout = architecture.layout(cut, network, smashed, data.shape)
            context = Context(layout, data.classes, clients, tokens=architecture.tokens, sample=data.shape)
            try:
                Composed(tuple(components.build(part) for part in defenses)).bind(context).prepare(split)
            except SplitbenchError as error:
                raise SplitbenchError([Mistake("defenses", m.what) for m in error.mistakes]) from error
