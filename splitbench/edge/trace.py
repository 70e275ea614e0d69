"""Attends a step and writes down every operation: whose it is, its MACs, what it reads and writes, what stays alive.

A backward operation belongs to whoever ran the forward one: autograd numbers its nodes, and the number a forward
operation was given is that of the node which runs on the way back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from splitbench.core.count import macs_of, self_test
from splitbench.edge.kinds import depth_of, kind_of
from splitbench.edge.memory import Ledger
from splitbench.edge.operation import Component, Operation, Owner, Phase, Who

_SILENT = ("detach", "alias", "lift_fresh", "_local_scalar_dense", "empty", "empty_like", "empty_strided", "new_empty",
           "new_empty_strided", "as_strided_", "resize_", "set_", "_unsafe_view", "is_same_size", "sym_size",
           "_reshape_alias")  # fmt: skip
_ENGINE = torch.autograd.graph.__file__
_FUNCTIONS = torch.autograd.function.__file__
_HOME = Path(torch.__file__).parent
_WRAPPERS = {str(_HOME / "_compile.py"), str(_HOME / "_dynamo" / "eval_frame.py")}  # around every call of a trace
_NO_NODE = 2**64 - 1  # the number of a node that only adds a gradient to a parameter's


class Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Operations in the order they ran, and a ledger of memory."""

    def __init__(self, sorts: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self_test()
        self.sorts = sorts  # whether what is kept for the way back is separated from other workspace
        self.operations: list[Operation] = []
        self.ledger = Ledger()
        self.owner = Owner()
        self.silent = False  # what runs is the trace's own
        self._nodes: dict[int, Owner] = {}
        self._back = Owner()
        self._stack = ExitStack()
        self._entered: list[Owner] = []  # owners outside the modules that are running

    def __enter__(self) -> Trace:
        if self.sorts:
            self._stack.enter_context(saved_tensors_hooks(self._keep, lambda saved: saved))
        self._stack.enter_context(_FusedAttention())
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._stack.close()
        self.ledger.close()

    def _keep(self, saved: Tensor) -> Tensor:
        self.ledger.mark(saved, "activations")
        return saved

    @contextmanager
    def doing(self, party: Who, component: Component) -> Iterator[None]:
        """What runs inside is this party's work; what follows stays the party's, as its layers."""
        before = self.owner
        self.owner = Owner(party, component)
        try:
            yield
        finally:
            self.owner = replace(before, party=party, component="layers")

    @contextmanager
    def inside(self, stage: nn.Module, party: Who) -> Iterator[None]:
        """Names the modules of a stage while they run."""
        handles = []
        for name, module in stage.named_modules():
            handles.append(module.register_forward_pre_hook(self._entering(name.removeprefix("stage."), party)))
            handles.append(module.register_forward_hook(self._leaving(), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _entering(self, name: str, party: Who) -> Any:
        def enter(*_: Any) -> None:
            self._entered.append(self.owner)
            self.owner = replace(self.owner, party=party, path=name or self.owner.path)

        return enter

    def _leaving(self) -> Any:
        def leave(*_: Any) -> None:
            # The party stays: the loss that follows the last layer is computed by whoever has that layer.
            self.owner = replace(self._entered.pop(), party=self.owner.party)

        return leave

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        name = func.overloadpacket._qualified_op_name.removeprefix("aten::")
        if name == "_local_scalar_dense" and args[0].is_meta:
            return _no_number(args[0])
        result = _laid_out(name, args, func(*args, **options))
        owner, phase = self._whose(name)
        inputs = [t for t in tree_leaves((args, options)) if isinstance(t, Tensor)]
        outputs = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        if name == "_to_copy" and outputs[0].is_meta and any(not t.is_meta for t in inputs):
            self.ledger.replace(inputs, outputs, owner)  # only where there are no numbers is this a copy
            return result
        self.ledger.see(outputs, owner)
        if self.silent or func.is_view or name in _SILENT:
            return result
        kind = kind_of(name, args)
        written = sum(_size(t) for t in outputs)
        read = [_size(t) for t in {id(t): t for t in inputs}.values()]
        if kind in ("embedding", "permutation"):
            read = [min(size, written) for size in read]  # of a table only the rows that are asked for
        macs, depth = macs_of(func, args, options, result), depth_of(name, args)
        self.operations.append(Operation(owner, phase, name, kind, macs, sum(read), written, depth))
        return result

    def _whose(self, name: str) -> tuple[Owner, Phase]:
        if torch._C._current_graph_task_id() == -1:
            # The first operation with a number is the one whose node has it; later ones made none.
            self._nodes.setdefault(torch._C._autograd._get_sequence_nr() - 1, self.owner)
            return self.owner, "forward"
        node = torch._C._current_autograd_node()
        if node is not None and node._sequence_nr() != _NO_NODE:
            self._back = self._nodes.get(node._sequence_nr(), self._back)
        # Layers leave no hooks behind; a defense that looks at single gradients does.
        return (replace(self._back, component="defense") if _in_hook() else self._back), "backward"


def _in_hook() -> bool:
    """Whether Python, and not autograd's own code, asked for the operation on the way back."""
    frame = sys._getframe(3)
    while frame.f_back is not None and frame.f_code.co_filename in _WRAPPERS:
        frame = frame.f_back
    # A function with a backward of its own is a layer's, not a hook.
    return frame.f_code.co_filename not in (_ENGINE, _FUNCTIONS)


def _laid_out(name: str, arguments: Any, result: Any) -> Any:
    """Without numbers torch forgets that convolutions keep channels last, and with it every copy that this costs."""
    last = torch.channels_last
    if name == "convolution" and result.is_meta and result.dim() == 4:
        if any(t.is_contiguous(memory_format=last) for t in arguments[:2]):
            return torch.empty_like(result, memory_format=last)
    elif name == "convolution_backward" and arguments[1].is_meta and arguments[1].dim() == 4:
        like = (arguments[1], arguments[2])
        kept = [
            torch.empty_like(slope, memory_format=last)
            if slope is not None and of.is_contiguous(memory_format=last)
            else slope
            for slope, of in zip(result, like, strict=False)
        ]
        return (*kept, result[2])
    return result


def _no_number(tensor: Tensor) -> bool | int | float:
    """For a number nobody can know without numbers: zero, and for a question «no»."""
    return torch.zeros((), dtype=tensor.dtype).item()


class Numberless(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets code that looks at single numbers run on tensors that have none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default and args[0].is_meta:
            return _no_number(args[0])
        name = func.overloadpacket._qualified_op_name.removeprefix("aten::")
        return _laid_out(name, args, func(*args, **(kwargs or {})))


def _size(tensor: Tensor) -> int:
    """Bytes; what is expanded has fewer than it seems to."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


class _FusedAttention(TorchFunctionMode):
    """Without numbers torch would take attention apart; a CPU runs it in one, unless there is dropout."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func is not torch.nn.functional.scaled_dot_product_attention or not args[0].is_meta:
            return func(*args, **options)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = {
            "attn_mask": None,
            "dropout_p": 0.0,
            "is_causal": False,
            **dict(zip(names, args, strict=False)),
            **options,
        }
        q, k, v = given["query"], given["key"], given["value"]
        plain = q.dim() == 4 and q.shape[-1] == k.shape[-1] == v.shape[-1] and q.shape[:2] == k.shape[:2]
        if given["dropout_p"] or not plain or given.get("enable_gqa") or q.stride(-1) != 1:
            return func(*args, **options)
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, given["is_causal"], attn_mask=given["attn_mask"], scale=given.get("scale")
        )[0]
