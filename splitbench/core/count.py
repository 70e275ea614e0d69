"""MACs of an operation: torch's own formulas, and ours for what torch does not count.

`torch.utils.flop_counter` counts two FLOPs a MAC. What it has no formula for counts as nothing: fused attention on a
CPU up to torch 2.14 (pytorch issue 195460), FFTs, sums of squares. A self-test refuses to count with a torch that
misses attention.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from splitbench.core.errors import SplitbenchError


def macs_of(operator: Any, arguments: Sequence[Any], options: Mapping[str, Any], result: Any) -> int:
    """Multiplications with the addition that follows. Moving, comparing and sorting are none."""
    own = _OWN.get(operator.overloadpacket._qualified_op_name.removeprefix("aten::"))
    if own is not None:
        return own(arguments, result)
    formula = flop_registry.get(operator.overloadpacket)
    return int(formula(*arguments, **options, out_val=result)) // 2 if formula is not None else 0


def _attention(arguments: Sequence[Any], result: Any) -> int:
    """Queries with keys, then weights with values: two products for each head."""
    q, k, v = arguments[:3]  # (N, heads, L, D), (N, heads, S, D), (N, heads, S, E)
    return int(q.shape[:-1].numel() * k.shape[-2] * (q.shape[-1] + v.shape[-1]))


def _attention_backward(arguments: Sequence[Any], result: Any) -> int:
    """The weights, which were not kept, once more; then the slopes of weights, values, queries and keys."""
    q, k, v = arguments[1:4]
    return int(q.shape[:-1].numel() * k.shape[-2] * (3 * q.shape[-1] + 2 * v.shape[-1]))


def _convolution_backward(arguments: Sequence[Any], result: Any) -> int:
    """As many as forward for each of the two slopes that are asked for; torch's own formula forgets groups."""
    slope, x, weight = arguments[:3]
    transposed, wanted = arguments[7], arguments[10]
    once = (x if transposed else slope).numel() * weight.shape[1:].numel()
    return int(once * (wanted[0] + wanted[1]))


def _fft(arguments: Sequence[Any], result: Any) -> int:
    """Radix 2: n/2 log2(n) butterflies for each line of n values, each a complex product, which is four real ones.

    A transform from or to real values takes half.
    """
    x, dims = arguments[0], arguments[1]
    whole = x if x.numel() >= result.numel() and not x.is_complex() else result
    lines = sum(whole.numel() * math.log2(whole.shape[dim]) for dim in dims if whole.shape[dim] > 1)
    real = not (x.is_complex() and result.is_complex())
    return int((lines if real else 2 * lines) + 0.5)


def _each_value(arguments: Sequence[Any], result: Any) -> int:
    """A sum of squares, or a running sum of them, as zig-zag retention takes: one for each value."""
    return int(arguments[0].numel())


_OWN: dict[str, Callable[[Sequence[Any], Any], int]] = {
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "convolution_backward": _convolution_backward,
    "_fft_c2c": _fft,
    "_fft_r2c": _fft,
    "_fft_c2r": _fft,
    "linalg_vector_norm": _each_value,
    "cumsum": _each_value,
}


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the MACs of everything that runs inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.macs = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.macs += macs_of(func, args, kwargs or {}, result)
        return result


@functools.cache
def self_test() -> None:
    """Raises if attention, whose count is known by hand, is miscounted, forward or backward.

    On the CPU, where it is fused into one operator that torch may have no formula for or may rename.
    """
    n, heads, length, width = 2, 3, 17, 8
    with torch.enable_grad():
        q, k, v = (torch.ones(n, heads, length, width, requires_grad=True) for _ in range(3))
        with Counter() as forward:
            out = F.scaled_dot_product_attention(q, k, v)
        with Counter() as backward:
            out.sum().backward()  # type: ignore[no-untyped-call]
    product = n * heads * length * length * width
    # Fused attention does one product again on the way back; unfused it keeps the weights.
    if forward.macs != 2 * product or backward.macs not in (4 * product, 5 * product):
        raise SplitbenchError(
            f"torch {torch.__version__} runs attention as something that cannot be counted: {forward.macs} MACs "
            f"forward and {backward.macs} backward, where {2 * product} and {4 * product} or {5 * product} are right; "
            "use a version of torch that splitbench was tested with"
        )
