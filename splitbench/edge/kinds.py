"""Kinds of operations: those of a kind reach about the same share of what a processor can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

# Kinds whose time is mostly arithmetic, and whose speed is counted in MACs per second.
PRODUCTS = (
    "conv",
    "conv_thin",
    "conv_grey",
    "conv_narrow",
    "patches",
    "pointwise",
    "depthwise",
    "linear",
    "batched",
    "attention",
    "fft",
)
# Kinds whose time is mostly passing over memory, and whose speed is counted in bytes per second.
PASSES = ("elementwise", "mask", "activation", "norm", "norm_mixed", "pool", "pool_thin", "reduction", "embedding",
          "permutation", "copy", "fill", "random", "sort", "update")  # fmt: skip
KINDS = (*PRODUCTS, *PASSES)

BACKWARD = "_backward"  # the operators of a kind that only run on the way back have a speed of their own
_TWO_WAYS = ("attention", "norm", "norm_mixed", "pool", "pool_thin", "embedding")

THIN = 8  # input channels below which a convolution cannot fill the vectors of a processor

_NAMES: dict[str, tuple[str, ...]] = {
    "linear": ("mm", "addmm"),
    "batched": ("bmm", "baddbmm"),
    "attention": ("_scaled_dot_product_flash_attention_for_cpu",
                  "_scaled_dot_product_flash_attention_for_cpu_backward"),
    "fft": ("_fft_c2c", "_fft_r2c", "_fft_c2r"),
    "activation": ("gelu", "gelu_backward", "tanh", "sigmoid", "silu", "silu_backward", "exp", "log", "sqrt", "rsqrt",
                   "pow", "cos", "sin", "_softmax", "_safe_softmax", "_log_softmax", "_softmax_backward_data",
                   "_log_softmax_backward_data", "erf"),
    "mask": ("where", "masked_fill", "masked_fill_", "gt", "ge", "lt", "le", "eq", "ne", "logical_and", "logical_or",
             "logical_not", "bitwise_not", "bitwise_and", "isnan", "isfinite"),
    "norm": ("native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit", "batch_norm_backward",
             "_batch_norm_with_update", "_batch_norm_no_update", "cudnn_batch_norm",
             "_native_batch_norm_legit_no_training", "native_layer_norm", "native_layer_norm_backward",
             "native_group_norm", "native_group_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward"),
    "pool": ("max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d", "avg_pool2d_backward",
             "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "adaptive_max_pool2d", "upsample_bilinear2d",
             "upsample_bicubic2d", "upsample_nearest2d"),
    "reduction": ("sum", "mean", "amax", "amin", "max", "min", "any", "all", "linalg_vector_norm", "norm", "cumsum",
                  "var", "var_mean", "std", "argmax", "argmin", "nll_loss_forward", "nll_loss_backward"),
    "embedding": ("embedding", "embedding_dense_backward"),
    "permutation": ("index", "index_select", "gather", "scatter", "scatter_add", "index_put", "index_put_",
                    "_unsafe_index", "_index_put_impl_", "roll", "flip", "_unsafe_index_put"),
    "copy": ("copy_", "clone", "cat", "stack", "_to_copy", "contiguous", "constant_pad_nd", "repeat", "unfold_backward",
             "select_backward", "slice_backward"),
    "fill": ("zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "fill_", "zero_", "new_zeros", "new_full",
             "scalar_tensor", "arange"),
    "random": ("randn", "rand", "randint", "randperm", "normal_", "normal", "bernoulli_", "bernoulli", "uniform_",
               "native_dropout", "rand_like", "randn_like", "random_", "exponential_", "multinomial"),
    "sort": ("sort", "topk", "argsort", "kthvalue", "median", "msort", "nonzero", "unique", "bincount"),
}  # fmt: skip
_KIND = {name: kind for kind, names in _NAMES.items() for name in names}


def kind_of(name: str, arguments: Sequence[Any]) -> str:
    """What an operator of torch's, called by its name without `aten::`, is counted as."""
    if name == "convolution":
        return _convolution(arguments[1], arguments[3], arguments[8])
    if name == "convolution_backward":
        return _convolution(arguments[2], arguments[4], arguments[9]) + BACKWARD
    kind = _KIND.get(name, "elementwise")
    if name == "native_batch_norm_backward" and _mixed(arguments[0], arguments[1]):
        kind = "norm_mixed"
    if kind == "pool" and arguments[0].dim() == 4 and arguments[0].shape[1] < 2 * THIN:
        kind = "pool_thin"
    return kind + BACKWARD if kind in _TWO_WAYS and "_backward" in name else kind


def _convolution(weight: Tensor, stride: Sequence[int], groups: int) -> str:
    if groups > 1 and weight.shape[1] == 1:
        return "depthwise"
    if list(stride) == list(weight.shape[2:]) != [1] * len(stride):
        return "patches"
    if weight.shape[0] < 2 * THIN or THIN // 2 <= weight.shape[1] < 2 * THIN:
        return "conv_narrow"
    if weight.shape[1] < THIN:
        return "conv_grey" if weight.shape[1] == 1 else "conv_thin"
    return "pointwise" if weight.shape[2:].numel() == 1 else "conv"


def _mixed(one: Tensor, other: Tensor) -> bool:
    """Whether two maps lie in memory differently, which some operators take many times as long for."""
    return one.dim() == 4 and one.stride(1) != other.stride(1)


def depth_of(name: str, arguments: Sequence[Any]) -> int:
    """How many terms are summed for one result; short sums leave a processor waiting for memory."""
    if name in ("convolution", "convolution_backward"):
        weight = arguments[1] if name == "convolution" else arguments[2]
        return int(weight.shape[1:].numel())
    if name in ("mm", "bmm"):
        return int(arguments[0].shape[-1])
    if name in ("addmm", "baddbmm"):
        return int(arguments[1].shape[-1])
    return 0
