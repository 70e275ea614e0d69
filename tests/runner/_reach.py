"""Everything that can be reached from an object without looking up names in modules."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

_END = (str, bytes, float, bool, type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, type(None))


def reachable(start: Any) -> Iterator[Any]:
    """Attributes, slots, containers, closures, defaults, bound methods, frames of generators, parameters, buffers and
    hooks of modules, gradients and what a tensor is a view of. Numbers and tensors are yielded too."""
    seen: set[int] = set()
    waiting = [start]
    alive = []  # what is made on the way must not be freed, or another object could take its address
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, _END) or id(thing) in seen:
            continue
        seen.add(id(thing))
        alive.append(thing)
        yield thing
        waiting += _inside(thing)


def _inside(thing: Any) -> list[Any]:
    found: list[Any] = []
    if isinstance(thing, int):
        return found
    if isinstance(thing, Tensor):
        return [thing.grad if thing.is_leaf else None, thing._base, *getattr(thing, "__dict__", {}).values()]
    if isinstance(thing, types.FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _filled(cell)]
        return [*cells, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values(), *vars(thing).values()]
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, types.GeneratorType) and thing.gi_frame is not None:
        found += thing.gi_frame.f_locals.values()
    if isinstance(thing, types.FrameType):
        return list(thing.f_locals.values())
    if isinstance(thing, functools.partial):
        found += [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, nn.Module):
        found += [*thing.parameters(), *thing.buffers()]
    if isinstance(thing, torch.Generator):
        found.append(thing.initial_seed())
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        found += [getattr(thing, name) for name in names if hasattr(thing, name) and not name.startswith("__")]
    found += list(getattr(thing, "__dict__", {}).values())
    # Whatever else the collector of garbage knows of: iterators, C types.
    found += [one for one in gc.get_referents(thing) if not _is_module_dict(one)]
    return found


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_module_dict(thing: Any) -> bool:
    return isinstance(thing, dict) and "__builtins__" in thing


def tensors(start: Any) -> list[Tensor]:
    return [thing for thing in reachable(start) if isinstance(thing, Tensor)]


def numbers(start: Any) -> set[int]:
    return {thing for thing in reachable(start) if isinstance(thing, int)}
