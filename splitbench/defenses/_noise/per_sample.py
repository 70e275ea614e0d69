"""Every sample's own gradient from one backward pass over a batch, by Opacus' rules for single layers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from splitbench.core.errors import CellError, SplitbenchError

Samples = dict[nn.Parameter, Tensor]  # (N, ...) for a parameter of shape (...)


class PerSample(nn.Module):
    """A client's layers, under their own names; a training pass leaves each sample's gradients in `samples`.

    Opacus' GradSampleModule has the same rules, but its hooks are lost when clients are given copies, and its views
    forbid what residual blocks do in place. Here hooks last for one forward pass and live on in its graph.
    """

    def __init__(self, stage: nn.Module, share: float = 1.0) -> None:
        super().__init__()
        self.stage = stage
        self.share = share  # of the norm that all of the client's layers may have together
        self.samples: Samples = {}

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and torch.is_grad_enabled()):
            inferred: Tensor = self.stage(x)
            return inferred
        self.samples = {}  # also of a client that is not protected, which nobody took
        watch = partial(_watch, self.samples, len(x))
        handles = [layer.register_forward_hook(watch) for layer in dict.fromkeys(_layers(self.stage))]
        try:
            z: Tensor = self.stage(x)
            return z
        finally:
            for handle in handles:
                handle.remove()

    def take(self) -> tuple[Samples, Tensor]:
        """The samples' gradients, once, in the order of the parameters, and their norms over all of these (N,)."""
        taken, self.samples = self.samples, {}
        learning = {name: p for name, p in self.stage.named_parameters() if p.grad is not None}
        missing = [name for name, p in learning.items() if p not in taken]
        if missing:
            raise CellError(
                f"no gradients of single samples for {', '.join(missing)}, used outside the layer that owns it; "
                "cut the network before it"
            )
        ordered = {p: taken[p] for p in learning.values()}
        if not ordered:
            return {}, torch.zeros(0)
        norms = torch.stack([g.reshape(len(g), -1).norm(dim=1) for g in ordered.values()]).norm(dim=0)
        # A rule that misreads a layer would say nothing, and epsilon be wrong; rounding is a thousand times less.
        wrong = [name for name, p in learning.items() if _apart(ordered[p], p) > 1e-3 * float(norms.mean())]
        if wrong:
            raise CellError(f"the gradients of single samples for {', '.join(wrong)} do not make up the batch's")
        return ordered, norms

    # Stored weights and what clients hand on must not tell that the layers are wrapped.

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.stage.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.stage.load_state_dict(*args, **kwargs)


def _apart(gradients: Tensor, p: nn.Parameter) -> float:
    assert p.grad is not None
    return float((gradients.mean(0) - p.grad).norm())


def _layers(module: nn.Module) -> Iterator[nn.Module]:
    """The layers that hold parameters. One without a rule is differentiated as a whole, with all that is in it."""
    from opacus.grad_sample import GradSampleModule

    if any(p.requires_grad for p in module.parameters(recurse=False)):
        yield module
        if type(module) not in GradSampleModule.GRAD_SAMPLERS:
            return
    for child in module.children():
        yield from _layers(child)


def _watch(samples: Samples, count: int, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.functorch import ft_compute_per_sample_gradient

    rule = GradSampleModule.GRAD_SAMPLERS.get(type(layer), ft_compute_per_sample_gradient)
    # The rule for convolutions reads memory as if it were contiguous, which channels last is not.
    activations = [x.detach().contiguous() for x in inputs]

    def collect(slope: Tensor) -> None:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")  # attention has no batched form
                # The loss is the mean over the batch: a sample's own gradient is `count` times its part.
                found = rule(layer, activations, slope.contiguous() * count)
        except NotImplementedError as error:
            raise CellError(f"no gradients of single samples for {type(layer).__name__}: {error}") from error
        for p, gradient in found.items():
            if len(gradient) != count:
                raise CellError(f"{type(layer).__name__} sees {len(gradient)} samples in a batch of {count}")
            if isinstance(layer, nn.Embedding) and layer.padding_idx is not None:
                gradient[:, layer.padding_idx] = 0  # the rule lets padding learn, torch does not
            if p.requires_grad:
                samples[p] = samples[p] + gradient if p in samples else gradient

    if output.requires_grad:
        output.register_hook(collect)  # type: ignore[no-untyped-call]


def without_batch_norm(stage: nn.Module) -> nn.Module:
    """Group norm in its place, with its weights and as many groups as Opacus takes; batch norm mixes samples."""
    for module in list(stage.modules()):
        for name, child in module.named_children():
            if isinstance(child, _BatchNorm):
                setattr(module, name, _group_norm(name, child))
    return stage


def _group_norm(name: str, old: _BatchNorm) -> nn.GroupNorm:
    if type(old) not in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        raise SplitbenchError(f"{name} is a {type(old).__name__}, which is more than batch norm: not to be replaced")
    new = nn.GroupNorm(math.gcd(32, old.num_features), old.num_features, old.eps, old.affine)
    if old.affine:
        new.weight, new.bias = old.weight, old.bias
    return new
