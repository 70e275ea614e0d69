"""A device that is not the CPU, for machines that have none: tensors there have numbers, and meet no tensor of the CPU.

What is there says that it is on `meta`, a device that every torch has, and keeps its numbers on the CPU. An operation
on tensors of both places fails as it does between a CPU and a graphics card, and so does drawing there with a generator
of the CPU. Stricter than torch in one point: rows of the CPU do not index what is elsewhere, since each such look waits
for the card.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

ELSEWHERE = torch.device("meta")
_MOVES = ("aten::_to_copy", "aten::copy_")


class StrayedError(AssertionError):
    """Tensors of two devices met."""


class There(Tensor):
    """A tensor that is elsewhere."""

    here: Tensor
    is_meta = False  # it has numbers

    @staticmethod
    def __new__(cls, here: Tensor) -> There:
        made: There = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=ELSEWHERE,
            requires_grad=here.requires_grad,
        )
        made.here = here.detach()
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"There({self.here})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Written(TorchFunctionMode):
    """Tensors made of numbers in Python never reach the dispatcher: they are made on the CPU and moved."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func is torch.tensor and options.get("device") == ELSEWHERE:
            return func(*args, **{**options, "device": "cpu"}).to(ELSEWHERE)
        if func is Tensor.new_tensor and isinstance(args[0], There):
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **options}).to(ELSEWHERE)
        return func(*args, **options)


class Elsewhere(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is on, tensors can be made elsewhere and moved there."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written = _Written()

    def __enter__(self) -> Elsewhere:
        self.written.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.written.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    name = func._schema.name
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    asked = kwargs.get("device")
    asked = torch.device(asked) if asked is not None else None
    there = [t for t in tensors if isinstance(t, There)]
    away = asked == ELSEWHERE if asked is not None else bool(there)
    if there and name not in _MOVES:
        # A number in a tensor may come along from the CPU, as it may to a graphics card.
        strayed = [t for t in tensors if not isinstance(t, There) and t.dim() > 0]
        if strayed:
            raise StrayedError(
                f"{name} was given a tensor on the CPU, {tuple(strayed[0].shape)}, beside some elsewhere"
            )
    if away and isinstance(kwargs.get("generator"), torch.Generator):
        raise StrayedError(f"{name} draws elsewhere with a generator of the CPU")
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner_args, inner_kwargs = tree_map(lambda t: t.here if isinstance(t, There) else t, (args, kwargs))
    found = func(*inner_args, **inner_kwargs)
    if name == "aten::copy_" or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs:
        return kwargs.get("out", args[0] if args else found)  # in place: what was written into
    return tree_map(lambda t: There(t) if isinstance(t, Tensor) else t, found) if away else found


def moved(thing: Any) -> Any:
    """A tensor, or a module with all that it holds, elsewhere."""
    return thing.to(ELSEWHERE)
