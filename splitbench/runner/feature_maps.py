"""Feature maps to try a periodic function on: of an untrained client, or of a stored run."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from splitbench.core.component import Part
from splitbench.core.data import as_input
from splitbench.core.errors import SplitbenchError
from splitbench.core.randomness import seeded
from splitbench.core.split import output_shape
from splitbench.methods.seal.function import Maps
from splitbench.plan import components
from splitbench.plan.feasible import load_data
from splitbench.runner.train import Trained

_IMAGES = 64
_VALUES = 2**24  # in all feature maps of one size: large maps come from fewer images


def untrained() -> Maps:
    """The client of SEAL's paper before its first step, with batch norm that has seen the embedded images."""
    data = load_data(Part("data", "fashion_mnist_mini", {}))
    architecture = components.build(Part("models", "resnet18", {"width": 0.25}))  # the client is the same at any width
    with seeded(0, "initialisation"):
        client = architecture.split(architecture.build(data.shape, data.classes), ("stem",)).stages[0]

    def at(size: int) -> Tensor:
        def scaled(x: Tensor) -> Tensor:
            x = as_input(x)
            return x if x.shape[-1] == 2 * size else F.interpolate(x, 2 * size, mode="bilinear", antialias=True)

        count = min(_IMAGES, max(1, _VALUES // (64 * size * size)))
        seen, tried = _spread(len(data.train), _IMAGES), _spread(len(data.test), count)
        with torch.no_grad():
            for module in client.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.reset_running_stats()
                    module.momentum = None  # the mean of what it has seen
            client.train()
            for begin in range(0, _IMAGES, count):
                client(scaled(data.train.x[seen[begin : begin + count]]))
            client.eval()
            return client(scaled(data.test.x[tried])).flatten(0, 1).double()  # type: ignore[no-any-return]

    return Maps("conv1 and bn1 of an untrained resnet18, on fashion_mnist_mini scaled to 2N pixels", (), at)


def _spread(length: int, count: int) -> Tensor:
    """Rows from all over a data set, which may be sorted by class."""
    return torch.linspace(0, length - 1, count).round().long()


def of_run(trained: Trained) -> Maps:
    """What the first client of a stored run computes of the images that it is evaluated on, before any defense."""
    prepared = trained.prepared
    client = prepared.models[0].stages[0].eval()
    x = as_input(prepared.evaluation.x)
    with torch.no_grad():
        shape = output_shape(client, x.shape[1:], x.dtype)
    spec = prepared.spec
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < 2:
        sides = " x ".join(map(str, shape))
        raise SplitbenchError(f"the client of run {spec.key} sends {sides}, which are no square feature maps")

    def at(size: int) -> Tensor:
        count = max(1, _VALUES // math.prod(shape))
        with torch.no_grad():
            return client(x[:count]).flatten(0, 1).contiguous().double()  # type: ignore[no-any-return]

    about = f"the client of run {spec.key}: {spec.data.name}, {spec.model.name} cut at {spec.cut}"
    return Maps(about, (shape[1],), at)
