"""Networks not written for splitbench: timm's by name, a text encoder by its folder, your own as `file.py:Class`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from splitbench.core.errors import SplitbenchError, nearest
from splitbench.core.model import Model


def adopt(name: str, thing: object) -> type[Model] | None:
    """A model made of an encoder in the folder `name`, of timm's network `name`, or of `thing`: a class of networks, or
    a function that returns one.
    """
    if thing is None:
        return _from_folder(name) or _from_timm(name)
    if isinstance(thing, type):
        return _from_maker(name, thing) if issubclass(thing, nn.Module) else None
    return _from_maker(name, thing) if inspect.isroutine(thing) else None


def _from_folder(name: str) -> type[Model] | None:
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        if "/" not in name:
            return None
        beside = [str(folder.parent / other.name) for other in folder.parent.glob("*/")]
        what = "holds no config.json" if folder.is_dir() else f"is no folder{nearest(name, beside) if beside else ''}"
        raise SplitbenchError(f"no model at '{name}': it {what}")
    from splitbench.models._encoders import published
    from splitbench.models._encoders.folder_model import FolderEncoder

    published.configuration(folder)
    members = {"folder": folder, "spec": name, "version": published.version(folder), "__doc__": FolderEncoder.__doc__}
    return type("FolderEncoder", (FolderEncoder,), members)


def _from_timm(name: str) -> type[Model] | None:
    # Imported here, since timm takes seconds and is asked only for names that nothing else knows.
    from splitbench.models._timm.network import TimmNetwork
    from splitbench.models._timm.package import timm

    if not timm.is_model(name):
        return None
    # Plain vision transformers call what follows the class token and the positions so.
    plain = timm.models.is_model_in_modules(name, {"vision_transformer", "deit"})
    members = {
        "architecture": name,
        "tokens": "norm_pre" if plain else "",
        "__doc__": f"timm's {name}, untrained unless given weights.",
    }
    return type("TimmNetwork", (TimmNetwork,), members)


def _from_maker(name: str, maker: Callable[..., Any]) -> type[Model]:
    from splitbench.models._adopting.own_network import OwnNetwork

    members = {
        "maker": staticmethod(maker),
        "spec": name,
        "modality": getattr(maker, "modality", "image"),
        "__doc__": (maker.__doc__ or f"The network {name}.").strip(),
    }
    return type("OwnNetwork", (OwnNetwork,), members)
