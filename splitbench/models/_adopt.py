"""Networks not written for splitbench: any of timm's by name, and the user's own as `file.py:Class`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from splitbench.core.model import Model


def adopt(name: str, thing: object) -> type[Model] | None:
    """A model made of timm's network `name`, or of `thing`: a class of networks, or a function that returns one."""
    if thing is None:
        return _from_timm(name)
    if isinstance(thing, type):
        return _from_maker(name, thing) if issubclass(thing, nn.Module) else None
    return _from_maker(name, thing) if inspect.isroutine(thing) else None


def _from_timm(name: str) -> type[Model] | None:
    # Imported here, since timm takes seconds and is asked only for names that nothing else knows.
    from splitbench.models._timm.network import TimmNetwork
    from splitbench.models._timm.package import timm

    if not timm.is_model(name):
        return None
    members = {"architecture": name, "__doc__": f"timm's {name}, untrained unless given weights."}
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
