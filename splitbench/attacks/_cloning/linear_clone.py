"""A clone that is one convolution: how far it is from what was sent, without passing anything through it.

The squared error of an affine client is quadratic in the images, and in its weights as well. While one of the two is
held fixed, a few sums over the smashed data tell the error and its slope exactly, however many steps are taken.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from splitbench.attacks._cloning.first_layer import transposed

Squares = Callable[[Tensor], tuple[Tensor, Tensor]]  # of images: their squared errors, and half of the slopes

_SMALL = 1024  # values in an image: for larger ones the matrix of all pairs costs more than the convolution


@dataclass(frozen=True)
class LinearClone:
    """A convolution, perhaps with batch norm at fixed statistics behind it."""

    layer: nn.Conv2d
    norm: nn.BatchNorm2d | None

    @classmethod
    def of(cls, client: nn.Module, x: Tensor) -> LinearClone | None:
        """The client as one, if it is one; `x` are images to make sure with."""
        leaves = [module for module in client.modules() if not list(module.children())]
        layer, norm = [*leaves, None, None][:2]
        if len(leaves) > 2 or not isinstance(layer, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d | None):
            return None
        plain = layer.padding_mode == "zeros" and not isinstance(layer.padding, str) and layer.groups == 1
        still = norm is None or (norm.affine and norm.running_mean is not None and not norm.training)
        if not plain or not still:
            return None
        found = cls(layer, norm)
        with torch.no_grad():
            # Layers say nothing of what is done with them between.
            sent, made = client(x), F.conv2d(x, *found._affine(), *found._how)
        same = sent.shape == made.shape and torch.allclose(sent, made, rtol=1e-4, atol=1e-5)
        return found if same else None

    @staticmethod
    def small(shape: tuple[int, ...]) -> bool:
        """Whether a step on images of this shape is a product with one matrix."""
        return math.prod(shape) <= _SMALL

    def of_images(self, targets: Tensor, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        """The mean squared error (N,) as a function of the images, for the weights as they are now."""
        with torch.no_grad():
            weight, bias = self._affine()
            wanted = targets - bias[:, None, None]
            squares = (self._paired if self.small(shape) else self._passing)(weight, wanted, shape)

        def errors(x: Tensor) -> Tensor:
            with torch.no_grad():
                value, half = squares(x)
            # The slope is known: what is added is nothing, and has it.
            return (value + ((x - x.detach()) * 2 * half.view_as(x)).flatten(1).sum(1)) / wanted[0].numel()

        return errors

    def _paired(self, weight: Tensor, wanted: Tensor, shape: tuple[int, ...]) -> Squares:
        pairs = self._pairs(weight, shape)
        pull = transposed(wanted, weight, shape[1:], self._how).flatten(1)
        rest = wanted.flatten(1).square().sum(1)

        def squares(x: Tensor) -> tuple[Tensor, Tensor]:
            x = x.flatten(1)
            there = x @ pairs
            return (x * (there - 2 * pull)).sum(1) + rest, there - pull

        return squares

    def _passing(self, weight: Tensor, wanted: Tensor, shape: tuple[int, ...]) -> Squares:
        def squares(x: Tensor) -> tuple[Tensor, Tensor]:
            beside = F.conv2d(x, weight, None, *self._how).sub_(wanted)
            back = transposed(beside, weight, shape[1:], self._how)
            return torch.linalg.vector_norm(beside.flatten(1), dim=1).square(), back

        return squares

    def of_weights(self, x: Tensor, targets: Tensor) -> Callable[[], Tensor]:
        """The mean squared error of all as a function of nothing but the weights, for these images."""
        stride, padding, dilation = self._how
        windows = F.unfold(x, self.layer.kernel_size, dilation, padding, stride).transpose(1, 2).flatten(0, 1)
        windows = F.pad(windows, (0, 1), value=1.0)  # the bias is the weight of a one
        sent = targets.flatten(2).transpose(1, 2).flatten(0, 1)
        pairs, pull, rest = windows.T @ windows, windows.T @ sent, targets.square().sum()

        def error() -> Tensor:
            weight, bias = self._affine()
            all_of = torch.cat((weight.flatten(1).T, bias[None]))
            return ((all_of * (pairs @ all_of - 2 * pull)).sum() + rest) / targets.numel()

        return error

    def _affine(self) -> tuple[Tensor, Tensor]:
        """Weights and biases of the convolution that both layers are."""
        weight = self.layer.weight
        bias = weight.new_zeros(len(weight)) if self.layer.bias is None else self.layer.bias
        if self.norm is None:
            return weight, bias
        assert self.norm.running_mean is not None
        assert self.norm.running_var is not None
        scale = self.norm.weight * torch.rsqrt(self.norm.running_var + self.norm.eps)
        return weight * scale[:, None, None, None], self.norm.bias + (bias - self.norm.running_mean) * scale

    @property
    def _how(self) -> Any:
        return self.layer.stride, self.layer.padding, self.layer.dilation

    def _pairs(self, weight: Tensor, shape: tuple[int, ...]) -> Tensor:
        """(P, P): the transpose after the convolution, as a matrix. Every window adds its own pairs of pixels."""
        flat = weight.flatten(1)
        places = _places(shape, tuple(weight.shape[2:]), *self._how).to(flat.device)
        each = (flat.T @ flat)[..., None].expand(-1, -1, places.shape[1])
        pairs = flat.new_zeros(math.prod(shape) + 1, math.prod(shape) + 1)
        pairs.index_put_((places[:, None], places[None]), each, accumulate=True)
        return pairs[1:, 1:].contiguous()


@functools.lru_cache(maxsize=4)
def _places(shape: tuple[int, ...], kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Tensor:
    """(C k k, windows): which pixel is where in which window, counted from one; 0 is outside of the image."""
    numbers = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64).view(1, *shape)
    return F.unfold(numbers, kernel, dilation, padding, stride)[0].long()
