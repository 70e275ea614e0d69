"""Everything that can be reached from an object by following references."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType

import torch
from torch import Tensor


def reachable(*roots: object) -> Iterator[object]:
    """Attributes, slots, containers, closures, bound methods, frames of generators and graphs of autograd.

    Modules, classes and globals are not followed: everybody reaches those.
    """
    seen: dict[int, object] = {}  # keeps what it saw, so that no number is given twice
    waiting = list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | CodeType):
            continue
        seen[id(thing)] = thing
        yield thing
        waiting.extend(_next(thing))


def _next(thing: object) -> Iterable[object]:
    if isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _filled(cell)]
        return [*cells, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
    if isinstance(thing, FrameType):
        return [dict(thing.f_locals)]
    if isinstance(thing, GeneratorType):
        # What a loop runs over is on the frame's stack alone, where only the collector sees it.
        held = [one for one in gc.get_referents(thing) if not isinstance(one, FrameType)]
        return [thing.gi_frame, thing.gi_yieldfrom, *held]
    if isinstance(thing, Tensor):
        return [
            vars(thing),
            thing.grad if thing.is_leaf else None,
            thing.grad_fn,
            thing._base,
            *gc.get_referents(thing),
        ]
    if isinstance(thing, torch.autograd.graph.Node):
        return [thing.next_functions, *_saved(thing)]
    return gc.get_referents(thing)


def _filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018
    except ValueError:
        return False
    return True


def _saved(node: object) -> list[object]:
    """What a step of a graph keeps, as long as it has not been freed."""
    found = []
    for name in dir(node):
        if name == "variable" or name.startswith("_saved_"):
            with contextlib.suppress(RuntimeError):
                found.append(getattr(node, name))
    return found


def tensors(*roots: object) -> list[Tensor]:
    return [thing for thing in reachable(*roots) if isinstance(thing, Tensor)]


def holds(roots: Iterable[object], secrets: Iterable[object]) -> list[object]:
    """Which of these secrets are reachable: equal numbers and text, tensors of equal values or in the same memory."""
    found = list(reachable(*roots))
    return [secret for secret in secrets if any(_same(thing, secret) for thing in found)]


def _same(thing: object, secret: object) -> bool:
    if isinstance(secret, Tensor):
        if not isinstance(thing, Tensor) or thing.layout != secret.layout:
            return False
        same_memory = secret.numel() > 0 and thing.untyped_storage().data_ptr() == secret.untyped_storage().data_ptr()
        return same_memory or (thing.shape == secret.shape and torch.equal(thing.double(), secret.double()))
    return type(thing) is type(secret) and thing == secret
