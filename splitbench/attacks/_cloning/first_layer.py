"""A convolution of grey images whose gradient for its input is quick to compute.

For a single channel, what libraries for convolutions do on the way back to the input is several times slower than a
matrix product and a sum over windows; for three they do better. Who optimises images takes that way at every step.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_MOST = 2**25  # values in all windows together: beyond it memory matters more


def quickened(client: nn.Module) -> nn.Module:
    """The same layers with the same weights; convolutions of grey images go back to them the quick way."""
    for layer in client.modules():
        grey = isinstance(layer, nn.Conv2d) and layer.in_channels == 1
        if grey and layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
            layer.forward = partial(_convolved, layer)  # type: ignore[arg-type]
    return client


def _convolved(layer: nn.Conv2d, x: Tensor) -> Tensor:
    out: Tensor = _Convolution.apply(x, layer.weight, layer.bias, (layer.stride, layer.padding, layer.dilation))  # type: ignore[no-untyped-call]
    return out


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, how: tuple[Any, Any, Any]) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how, ctx.biases = how, None if bias is None else list(bias.shape)
        return F.conv2d(x, weight, bias, *how)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        stride, padding, dilation = ctx.how
        to_x, to_weight, to_bias, _ = ctx.needs_input_grad
        quick = to_x and weight[0].numel() * up[:, 0].numel() <= _MOST
        back: list[Tensor | None] = [None, None, None]
        mask = [to_x and not quick, to_weight, to_bias]
        if any(mask):
            back = list(
                torch.ops.aten.convolution_backward(
                    up, x, weight, ctx.biases, stride, padding, dilation, False, [0, 0], 1, mask
                )
            )
        if quick:
            back[0] = transposed(up, weight, x.shape[2:], ctx.how)
        return (*back, None)


def transposed(up: Tensor, weight: Tensor, size: Any, how: tuple[Any, Any, Any]) -> Tensor:
    """The way back to images of this size: a matrix product, and a sum over windows."""
    stride, padding, dilation = how
    windows = weight.flatten(1).T @ up.flatten(2)  # (N, C k k, places)
    return F.fold(windows, size, weight.shape[2:], dilation, padding, stride)
