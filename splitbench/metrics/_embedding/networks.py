"""Embedders that are known by the names of their parameters."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from splitbench.core.errors import SplitbenchError
from splitbench.core.torchvision import declare_missing_operators
from splitbench.metrics._embedding.embedder import IMAGENET, Embedder

_Colours = tuple[float, float, float]


@dataclass(frozen=True)
class _Known:
    name: str
    telling: str  # a parameter that no other of them has
    make: Callable[[], nn.Module]
    head: str  # the classifier behind the features, which is not built
    side: int
    mean: _Colours
    spread: _Colours
    in_order: bool = False  # the same layers under other names


def _imported(name: str) -> Any:
    declare_missing_operators()
    return importlib.import_module(name)


def _inception() -> nn.Module:
    made: nn.Module = _imported("facenet_pytorch").InceptionResnetV1()
    return made


def _timm(name: str) -> nn.Module:
    made: nn.Module = _imported("timm").create_model(name, num_classes=0)
    return made


_KNOWN = (
    # Sizes and normalisations are those of their training. facenet-pytorch: (x - 127.5) / 128 for x in [0, 255].
    _Known("InceptionResnetV1", "conv2d_1a.conv.weight", _inception, "logits.", 160, (0.5,) * 3, (128 / 255,) * 3),
    _Known("ResNet-18", "layer1.0.conv1.weight", lambda: _timm("resnet18"), "fc.", 224, *IMAGENET),
    _Known(
        "EfficientNet-Lite0",
        "_conv_stem.weight",
        lambda: _timm("tf_efficientnet_lite0"),
        "_fc.",
        224,
        (127 / 255,) * 3,
        (128 / 255,) * 3,
        in_order=True,
    ),
)


def read(path: Path, threads: int) -> Embedder:
    """The network whose parameters a file holds, up to the features that its classifier is given."""
    stored = _read(path)
    known = next((known for known in _KNOWN if known.telling in stored), None)
    if known is None:
        names = ", ".join(list(stored)[:3]) or "none"
        raise SplitbenchError(
            f"'{path}' holds neither an InceptionResnetV1 (facenet_pytorch) nor a ResNet-18: its parameters are "
            f"called {names} ..."
        )
    with torch.random.fork_rng(devices=[]):  # initialised for nothing
        network = known.make()
    body = {name: tensor for name, tensor in stored.items() if not name.startswith(known.head)}
    _fill(network, body, known, path)
    network.eval().requires_grad_(False)
    return Embedder(network, (known.side, known.side), known.mean, known.spread)


def _fill(network: nn.Module, stored: Mapping[str, Tensor], known: _Known, path: Path) -> None:
    wanted = network.state_dict()
    if known.in_order and len(stored) == len(wanted):
        stored = dict(zip(wanted, stored.values(), strict=True))
    # Counters of batches, which an older file lacks, decide nothing.
    missing = [name for name in wanted if name not in stored and not name.endswith("num_batches_tracked")]
    foreign = [name for name in stored if name not in wanted]
    wrong = [name for name in stored if name in wanted and stored[name].shape != wanted[name].shape]
    for what, names in (("it has no", missing), ("it also has", foreign), ("another shape has", wrong)):
        if names:
            rest = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise SplitbenchError(f"'{path}' looks like {known.name} but is not: {what} {names[0]}{rest}")
    network.load_state_dict(dict(stored), strict=False)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)  # tensors and nothing that could run
    except (SafetensorError, RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        raise SplitbenchError(
            f"the weights in '{path}' cannot be read: {' '.join(str(error).split())[:200]}"
        ) from error
    return dict(found)
